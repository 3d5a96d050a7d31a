{{- define "selector" -}}
control-plane: controller-manager
app.kubernetes.io/name: lws
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
