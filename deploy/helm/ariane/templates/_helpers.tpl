{{- define "ariane.name" -}}
{{- printf "%s" .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "ariane.labels" -}}
app.kubernetes.io/name: ariane
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "ariane.commonLabels" -}}
{{ include "ariane.labels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "ariane.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* Addresses of all name servers, as brokers and tools take them. */}}
{{- define "ariane.nameServers" -}}
{{- $name := printf "%s-namesrv" (include "ariane.name" .) -}}
{{- $all := list -}}
{{- range $n := until (int .Values.nameServer.replicas) -}}
{{- $all = append $all (printf "%s-%d.%s:9876" $name $n $name) -}}
{{- end -}}
{{- join ";" $all -}}
{{- end -}}

{{- define "ariane.podSecurity" -}}
runAsNonRoot: true
runAsUser: 1000
runAsGroup: 1000
fsGroup: 1000
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "ariane.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* Keeps the pods that match these labels on different nodes. Call with a dict of root and labels. */}}
{{- define "ariane.affinity" -}}
{{- $root := .root -}}
{{- if ne $root.Values.antiAffinity "none" }}
affinity:
  podAntiAffinity:
  {{- if eq $root.Values.antiAffinity "required" }}
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: {{ $root.Values.topologyKey }}
        labelSelector:
          matchLabels: {{- .labels | nindent 12 }}
  {{- else }}
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: {{ $root.Values.topologyKey }}
          labelSelector:
            matchLabels: {{- .labels | nindent 14 }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "ariane.placement" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "ariane.podAnnotations" -}}
{{- if and .root.Values.metrics.enabled .root.Values.metrics.annotations }}
prometheus.io/scrape: "true"
prometheus.io/port: {{ .port | quote }}
{{- end }}
{{- with .root.Values.podAnnotations }}
{{ toYaml . }}
{{- end }}
{{- end -}}
