{{/* The settings of an endpoint that all monitors share. The operator deprecates fields that name files of Prometheus, so the
token comes from a Secret. */}}
{{- define "lws.scraping" -}}
path: /metrics
scheme: https
# Series of a set have the namespace of the set, not that of the target.
honorLabels: true
authorization:
  type: Bearer
  credentials:
    name: {{ include "lws.metricsTokenSecret" . }}
    key: token
tlsConfig:
  {{- if .Values.enableCertManager }}
  serverName: {{ include "lws.fullname" . }}-controller-manager-metrics-service.{{ .Release.Namespace }}.svc
  ca:
    secret:
      name: lws-metrics-server-cert
      key: ca.crt
  {{- else }}
  # The metrics certificate is self-signed, so no CA can verify it.
  insecureSkipVerify: true
  {{- end }}
{{- with .Values.prometheus.interval }}
interval: {{ . }}
{{- end }}
{{- with .Values.prometheus.scrapeTimeout }}
scrapeTimeout: {{ . }}
{{- end }}
{{- with .Values.prometheus.relabelings }}
relabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.prometheus.metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Whether there is a ServiceMonitor or a PodMonitor: "true" or nothing. */}}
{{- define "lws.monitored" -}}
{{- if and .Values.enablePrometheus (or .Values.prometheus.serviceMonitor .Values.prometheus.podMonitor) -}}
true
{{- end -}}
{{- end -}}

{{/* The Secret whose key `token` lets its bearer read /metrics. */}}
{{- define "lws.metricsTokenSecret" -}}
{{- default (printf "%s-metrics-reader-token" (include "lws.fullname" .)) .Values.prometheus.tokenSecretName -}}
{{- end -}}
