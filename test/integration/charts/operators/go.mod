// Definitions of the Prometheus operator and of cert-manager, which their modules carry; nothing is compiled.
module charts/operators

go 1.26.0
