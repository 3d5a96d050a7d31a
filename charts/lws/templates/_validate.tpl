{{/* Values that do not go together, refused with what to do; what one value alone may be is in values.schema.json. */}}
{{- define "lws.validate" -}}
{{- $prometheus := .Values.enablePrometheus -}}
{{- $refusals := list -}}

{{- $unelected := false -}}
{{- range $argument := .Values.extraArgs -}}
  {{- $flag := $argument | trimPrefix "-" | trimPrefix "-" | splitList "=" | first -}}
  {{- if regexMatch "^--?leader-elect=(0|f|F|FALSE|false|False)$" $argument -}}
    {{- $unelected = true -}}
  {{- else if eq $flag "leader-elect-resource-name" -}}
    {{- $refusals = append $refusals (printf "extraArgs %s: the manager may only take the Lease b8b2488c.x-k8s.io; remove the flag" $argument) -}}
  {{- else if eq $flag "health-probe-bind-address" -}}
    {{- $refusals = append $refusals (printf "extraArgs %s: the probes of the Deployment ask another port; set ports.probes" $argument) -}}
  {{- else if and (eq $flag "metrics-bind-address") $prometheus -}}
    {{- $refusals = append $refusals (printf "extraArgs %s with enablePrometheus: the metrics Service leads to another port; set ports.metrics" $argument) -}}
  {{- end -}}
{{- end -}}
{{- if $unelected -}}
  {{- $type := dig "type" "RollingUpdate" .Values.strategy -}}
  {{- if gt (int .Values.replicaCount) 1 -}}
    {{- $refusals = append $refusals (printf "extraArgs --leader-elect=false with replicaCount=%d: every replica would act, on the same sets; remove the flag, or set replicaCount=1 and strategy.type=Recreate" (int .Values.replicaCount)) -}}
  {{- else if ne $type "Recreate" -}}
    {{- $refusals = append $refusals "extraArgs --leader-elect=false without strategy.type=Recreate: during an update the old and the new manager would both act; remove the flag, or set strategy.type=Recreate" -}}
  {{- end -}}
  {{- if hasKey .Values.configuration "sharding" -}}
    {{- $refusals = append $refusals "extraArgs --leader-elect=false with configuration.sharding: shards are held by Leases; remove one of the two" -}}
  {{- end -}}
{{- end -}}

{{- $tls := dig "tls" dict .Values.configuration -}}
{{- if and (eq (default "" $tls.minVersion) "VersionTLS13") $tls.cipherSuites -}}
  {{- $refusals = append $refusals "configuration.tls.cipherSuites with minVersion=VersionTLS13: TLS 1.3 does not let servers choose, and the manager would not start; remove one of the two" -}}
{{- end -}}

{{- $repository := .Values.image.manager.repository -}}
{{- if or (eq $repository "registry.k8s.io/lws/lws") (regexMatch "/k8s-staging-(images/lws|lws)/lws$" $repository) -}}
  {{- $refusals = append $refusals (printf "image.manager.repository=%s: that is the original controller, which this chart cannot start; remove image.manager from values that were written for its chart, or name the repository of your image (docs/operations/handover.md)" $repository) -}}
{{- end -}}

{{- $ports := list (int .Values.service.port) (int .Values.ports.metrics) (int .Values.ports.probes) -}}
{{- if ne (len (uniq $ports)) 3 -}}
  {{- $refusals = append $refusals (printf "service.port=%d, ports.metrics=%d, ports.probes=%d: one process cannot listen on a port twice; choose three numbers" (index $ports 0) (index $ports 1) (index $ports 2)) -}}
{{- end -}}
{{- if and .Values.hostNetwork .Values.networkPolicy.enabled -}}
  {{- $refusals = append $refusals "hostNetwork with networkPolicy.enabled: no NetworkPolicy applies to pods on the network of their node; set networkPolicy.enabled=false, and guard the ports by the firewall of the nodes" -}}
{{- end -}}

{{- if not (or .Values.serviceAccount.create .Values.serviceAccount.name) -}}
  {{- $refusals = append $refusals "serviceAccount.create=false without serviceAccount.name: permissions would go to nobody; name the account that is there" -}}
{{- end -}}

{{- $service := printf "%s-controller-manager-metrics-service" (include "lws.fullname" .) -}}
{{- if and $prometheus (gt (len $service) 63) -}}
  {{- $refusals = append $refusals (printf "enablePrometheus: the metrics Service would be called %s, which is longer than the 63 characters that Kubernetes allows; set fullnameOverride, or choose a shorter name for the release" $service) -}}
{{- end -}}

{{- if and .Values.prometheus.podMonitor (not .Values.enablePrometheus) -}}
  {{- $refusals = append $refusals "prometheus.podMonitor without enablePrometheus: the port of the metrics would not be declared; set enablePrometheus=true" -}}
{{- end -}}
{{- if and .Values.enablePrometheus .Values.prometheus.podMonitor .Values.prometheus.serviceMonitor -}}
  {{- $refusals = append $refusals "prometheus.podMonitor with prometheus.serviceMonitor: every replica would be scraped twice; set prometheus.serviceMonitor=false" -}}
{{- end -}}

{{- range .Values.extraVolumes -}}
  {{- if has .name (list "manager-config" "tmp" "cert" "metrics-cert") -}}
    {{- $refusals = append $refusals (printf "extraVolumes: %s is the name of a volume of the chart; choose another" .name) -}}
  {{- end -}}
{{- end -}}

{{- range $gate, $on := .Values.featureGates -}}
  {{- if and $on (ne $gate "WorkloadAwareScheduling") -}}
    {{- $refusals = append $refusals (printf "featureGates.%s=true: this manager has no such feature gate, only WorkloadAwareScheduling; remove it" $gate) -}}
  {{- end -}}
{{- end -}}

{{- if $refusals -}}
  {{- fail (printf "these values do not go together:\n- %s\n" (join "\n- " $refusals)) -}}
{{- end -}}
{{- end -}}
