{{- define "corvo.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "corvo.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains (include "corvo.name" .) .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "corvo.name" .) | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "corvo.selectorLabels" -}}
app.kubernetes.io/name: {{ include "corvo.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "corvo.labels" -}}
{{ include "corvo.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Helm reads numbers as floats and would write ten million as 1e+07. */}}
{{- define "corvo.setting" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) }}{{ int64 . }}{{ else }}{{ . }}{{ end }}
{{- end }}

{{- define "corvo.image" -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end }}

{{/* Not empty when the nodes are one cluster, or can become one. */}}
{{- define "corvo.isCluster" -}}
{{- if .Values.cluster.enabled }}true{{ end }}
{{- end }}

{{- define "corvo.secretName" -}}
{{- default (printf "%s-cluster" (include "corvo.fullname" .)) .Values.cluster.existingSecret }}
{{- end }}

{{/* What follows the name of a pod in its address. */}}
{{- define "corvo.podDomain" -}}
{{ include "corvo.fullname" . }}-nodes.{{ .Release.Namespace }}.svc.{{ .Values.cluster.domain }}
{{- end }}

{{- define "corvo.affinity" -}}
{{- if .Values.affinity }}
{{- toYaml .Values.affinity }}
{{- else if and (gt (int .Values.replicas) 1) (ne .Values.cluster.antiAffinity "off") }}
podAntiAffinity:
  {{- if eq .Values.cluster.antiAffinity "hard" }}
  requiredDuringSchedulingIgnoredDuringExecution:
    - topologyKey: kubernetes.io/hostname
      labelSelector:
        matchLabels:
          {{- include "corvo.selectorLabels" . | nindent 10 }}
  {{- else }}
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "corvo.selectorLabels" . | nindent 12 }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "corvo.topologySpread" -}}
{{- if .Values.topologySpreadConstraints }}
{{- toYaml .Values.topologySpreadConstraints }}
{{- else if and (gt (int .Values.replicas) 1) (ne .Values.cluster.topologySpread "off") }}
- maxSkew: 1
  topologyKey: {{ .Values.cluster.topologyKey }}
  whenUnsatisfiable: {{ eq .Values.cluster.topologySpread "hard" | ternary "DoNotSchedule" "ScheduleAnyway" }}
  labelSelector:
    matchLabels:
      {{- include "corvo.selectorLabels" . | nindent 6 }}
{{- end }}
{{- end }}
