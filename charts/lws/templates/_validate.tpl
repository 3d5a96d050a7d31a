{{/* Rejects combinations of values that contradict each other, and says what to do. values.schema.json checks single values. */}}
{{- define "lws.validate" -}}
{{- $prometheus := .Values.enablePrometheus -}}
{{- $refusals := list -}}

{{- $unelected := false -}}
{{- range $argument := .Values.extraArgs -}}
  {{- $flag := $argument | trimPrefix "-" | trimPrefix "-" | splitList "=" | first -}}
  {{- if regexMatch "^--?leader-elect=(0|f|F|FALSE|false|False)$" $argument -}}
    {{- $unelected = true -}}
  {{- else if eq $flag "leader-elect-resource-name" -}}
    {{- $refusals = append $refusals (printf "extraArgs %s: the manager has permission only for the Lease b8b2488c.x-k8s.io; remove the flag" $argument) -}}
  {{- else if eq $flag "health-probe-bind-address" -}}
    {{- $refusals = append $refusals (printf "extraArgs %s: the probes of the Deployment use another port; set ports.probes" $argument) -}}
  {{- else if and (eq $flag "metrics-bind-address") $prometheus -}}
    {{- $refusals = append $refusals (printf "extraArgs %s with enablePrometheus: the metrics Service uses another port; set ports.metrics" $argument) -}}
  {{- end -}}
{{- end -}}
{{- if $unelected -}}
  {{- $type := dig "type" "RollingUpdate" .Values.strategy -}}
  {{- if gt (int .Values.replicaCount) 1 -}}
    {{- $refusals = append $refusals (printf "extraArgs --leader-elect=false with replicaCount=%d: all replicas would reconcile the same sets; remove the flag, or set replicaCount=1 and strategy.type=Recreate" (int .Values.replicaCount)) -}}
  {{- else if ne $type "Recreate" -}}
    {{- $refusals = append $refusals "extraArgs --leader-elect=false without strategy.type=Recreate: during an update, the old and the new manager would both reconcile; remove the flag, or set strategy.type=Recreate" -}}
  {{- end -}}
  {{- if hasKey .Values.configuration "sharding" -}}
    {{- $refusals = append $refusals "extraArgs --leader-elect=false with configuration.sharding: shards are held by Leases; remove one of the two" -}}
  {{- end -}}
{{- end -}}

{{- $tls := dig "tls" dict .Values.configuration -}}
{{- if and (eq (default "" $tls.minVersion) "VersionTLS13") $tls.cipherSuites -}}
  {{- $refusals = append $refusals "configuration.tls.cipherSuites with minVersion=VersionTLS13: cipher suites of TLS 1.3 cannot be configured, so the manager would not start; remove one of the two" -}}
{{- end -}}

{{- $repository := .Values.image.manager.repository -}}
{{- if or (eq $repository "registry.k8s.io/lws/lws") (regexMatch "/k8s-staging-(images/lws|lws)/lws$" $repository) -}}
  {{- $refusals = append $refusals (printf "image.manager.repository=%s: this is upstream's controller, which this chart cannot run; remove image.manager from values that were written for upstream's chart, or set the repository of your image (docs/operations/handover.md)" $repository) -}}
{{- end -}}

{{- $ports := list (int .Values.service.port) (int .Values.ports.metrics) (int .Values.ports.probes) -}}
{{- if ne (len (uniq $ports)) 3 -}}
  {{- $refusals = append $refusals (printf "service.port=%d, ports.metrics=%d, ports.probes=%d: one process cannot listen on the same port twice; choose three different ports" (index $ports 0) (index $ports 1) (index $ports 2)) -}}
{{- end -}}
{{- if and .Values.hostNetwork .Values.networkPolicy.enabled -}}
  {{- $refusals = append $refusals "hostNetwork with networkPolicy.enabled: NetworkPolicies do not apply to pods on the host network; set networkPolicy.enabled=false, and protect the ports with the firewall of the nodes" -}}
{{- end -}}

{{- if not (or .Values.serviceAccount.create .Values.serviceAccount.name) -}}
  {{- $refusals = append $refusals "serviceAccount.create=false without serviceAccount.name: the manager would have no permissions; set the name of an existing ServiceAccount" -}}
{{- end -}}

{{- $service := printf "%s-controller-manager-metrics-service" (include "lws.fullname" .) -}}
{{- if and $prometheus (gt (len $service) 63) -}}
  {{- $refusals = append $refusals (printf "enablePrometheus: the metrics Service would be named %s, but Kubernetes allows at most 63 characters; set fullnameOverride, or choose a shorter release name" $service) -}}
{{- end -}}

{{- if and .Values.prometheus.podMonitor (not .Values.enablePrometheus) -}}
  {{- $refusals = append $refusals "prometheus.podMonitor without enablePrometheus: the metrics port would not be declared; set enablePrometheus=true" -}}
{{- end -}}
{{- if and .Values.enablePrometheus .Values.prometheus.podMonitor .Values.prometheus.serviceMonitor -}}
  {{- $refusals = append $refusals "prometheus.podMonitor with prometheus.serviceMonitor: every replica would be scraped twice; set prometheus.serviceMonitor=false" -}}
{{- end -}}

{{- range .Values.extraVolumes -}}
  {{- if has .name (list "manager-config" "tmp" "cert" "metrics-cert") -}}
    {{- $refusals = append $refusals (printf "extraVolumes: the chart has its own volume named %s; choose another name" .name) -}}
  {{- end -}}
{{- end -}}

{{- range $gate, $on := .Values.featureGates -}}
  {{- if and $on (ne $gate "WorkloadAwareScheduling") -}}
    {{- $refusals = append $refusals (printf "featureGates.%s=true: the manager has only the feature gate WorkloadAwareScheduling; remove the other" $gate) -}}
  {{- end -}}
{{- end -}}

{{- if $refusals -}}
  {{- fail (printf "these values contradict each other:\n- %s\n" (join "\n- " $refusals)) -}}
{{- end -}}
{{- end -}}
