{{/* How pods are replaced. On the node's network the next one finds no free port beside the old one, so there the old one
goes first: else a cluster with as many nodes as replicas would wait for ever. */}}
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
