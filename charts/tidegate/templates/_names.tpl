{{- define "tidegate.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 52 | trimSuffix "-" }}
{{- end }}

{{/* At most 52 characters, so that suffixes of the chart's fit into 63. */}}
{{- define "tidegate.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains (include "tidegate.name" .) .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "tidegate.name" .) | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "tidegate.selector" -}}
app.kubernetes.io/name: {{ include "tidegate.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: controller
{{- end }}

{{- define "tidegate.labels" -}}
{{ include "tidegate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
{{- end }}

{{- define "tidegate.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "tidegate.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name: which account, if none is to be created?" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "tidegate.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{/* Whether the controller reads files for ACME. */}}
{{- define "tidegate.acmeFiles" -}}
{{- with .Values.certificates -}}
{{- if and .issuers (or .acme.caSecret .acme.externalAccount.id) -}}yes{{- end -}}
{{- end -}}
{{- end }}
