{{/* How pods are replaced. On the host network, a new pod cannot use the ports of an old one on the same node, so the old one is
deleted first. Otherwise, a cluster with as many nodes as replicas would wait forever. */}}
{{- define "lws.strategy" -}}
{{- if .Values.strategy -}}
{{- toYaml .Values.strategy -}}
{{- else if .Values.hostNetwork -}}
type: RollingUpdate
rollingUpdate:
  maxSurge: 0
  maxUnavailable: 1
{{- end -}}
{{- end -}}
