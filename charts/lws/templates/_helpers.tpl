{{/* The chart name, or nameOverride. */}}
{{- define "lws.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The full name: the release name if it contains the chart name, else both. */}}
{{- define "lws.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $full .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The ServiceAccount of the manager's pods, created by the chart or not. */}}
{{- define "lws.serviceAccountName" -}}
{{- default (printf "%s-controller-manager" (include "lws.fullname" .)) .Values.serviceAccount.name -}}
{{- end -}}

{{/* The image. With a digest, it has a tag only if one is set. */}}
{{- define "lws.image" -}}
{{- .Values.image.manager.repository -}}
{{- if .Values.image.manager.digest -}}
{{- with .Values.image.manager.tag }}:{{ . }}{{ end -}}@{{ .Values.image.manager.digest }}
{{- else -}}
:{{ default .Chart.AppVersion .Values.image.manager.tag }}
{{- end -}}
{{- end -}}

{{/* Pull secrets: those of the chart, then those that all charts of a release share. */}}
{{- define "lws.imagePullSecrets" -}}
{{- concat .Values.imagePullSecrets (default list .Values.global.imagePullSecrets) | uniq | toYaml -}}
{{- end -}}

{{/* Selector labels of the Deployment. They are immutable, and equal to upstream's, so that upstream's Deployment is upgraded in place. */}}
{{- define "lws.selectorLabels" -}}
control-plane: controller-manager
app.kubernetes.io/name: {{ include "lws.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Labels of every object. */}}
{{- define "lws.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/name: {{ include "lws.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Labels of an object that has its own labels, which take precedence: YAML forbids duplicate keys. The chart and these labels are passed in. */}}
{{- define "lws.labelsAnd" -}}
{{- merge (deepCopy (default dict (index . 1))) (include "lws.labels" (index . 0) | fromYaml) | toYaml -}}
{{- end -}}

{{/* The manager's configuration file. Settings that the chart depends on override .Values.configuration. */}}
{{- define "lws.configuration" -}}
{{- $own := dict
  "apiVersion" "config.lws.x-k8s.io/v1alpha1"
  "kind" "Configuration"
  "webhook" (dict "port" (int .Values.service.port))
  "metrics" (dict "bindAddress" (printf ":%d" (int .Values.ports.metrics)))
  "health" (dict "healthProbeBindAddress" (printf ":%d" (int .Values.ports.probes)))
  "leaderElection" (dict "leaderElect" true)
  "internalCertManagement" (dict "enable" (not .Values.enableCertManager)) -}}
{{- with .Values.gangSchedulingManagement -}}
{{- $_ := set $own "gangSchedulingManagement" . -}}
{{- end -}}
{{- if (default dict .Values.featureGates).WorkloadAwareScheduling -}}
{{- $_ := set $own "featureGates" (dict "WorkloadAwareScheduling" true) -}}
{{- end -}}
{{- mergeOverwrite (deepCopy .Values.configuration) $own | toYaml -}}
{{- end -}}

{{/* The number of additional Leases: one for each shard, none without sharding. */}}
{{- define "lws.shards" -}}
{{- $shards := int (dig "sharding" "shards" 1 .Values.configuration) -}}
{{- ternary $shards 0 (gt $shards 1) -}}
{{- end -}}

{{/* What all webhook entries have in common; the path is passed in. */}}
{{- define "lws.webhookClient" -}}
{{- $root := index . 0 -}}
clientConfig:
  service:
    name: lws-webhook-service
    namespace: {{ $root.Release.Namespace }}
    port: 443
    path: {{ index . 1 }}
admissionReviewVersions: [v1]
sideEffects: None
failurePolicy: {{ $root.Values.webhooks.failurePolicy }}
timeoutSeconds: {{ $root.Values.webhooks.timeoutSeconds }}
{{- with $root.Values.webhooks.namespaceSelector }}
namespaceSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
