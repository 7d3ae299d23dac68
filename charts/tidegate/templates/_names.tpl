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
{{- $files := or .acme.caSecret .acme.externalAccount.id -}}
{{- range .acme.accounts -}}
{{- $files = or $files .caSecret (dig "externalAccount" "id" "" .) -}}
{{- end -}}
{{- if and .issuers $files -}}yes{{- end -}}
{{- end -}}
{{- end }}

{{/* One of several ACME accounts as an argument, of a dict with its name and what is said of it. */}}
{{- define "tidegate.acmeAccount" -}}
{{- $name := .name -}}
--acme-account={{ $name }}
{{- with .account -}}
{{- with .directory }},directory={{ . }}{{ end -}}
{{- range .contacts }},contact={{ . }}{{ end -}}
{{- with .profile }},profile={{ . }}{{ end -}}
{{- if .caSecret }},ca=/etc/tidegate/acme-accounts/{{ $name }}/ca.crt{{ end -}}
{{- with dig "externalAccount" "id" "" . }},external-account={{ . }},external-key=/etc/tidegate/acme-accounts/{{ $name }}/key{{ end -}}
{{- range .namespaces }},namespace={{ . }}{{ end -}}
{{- end -}}
{{- end }}

{{/* The Secrets with files of these accounts, as sources of a volume. */}}
{{- define "tidegate.acmeAccountFiles" -}}
{{- range $name, $account := .Values.certificates.acme.accounts }}
{{- with $account.caSecret }}
- secret: {name: {{ . }}, items: [{key: ca.crt, path: {{ $name }}/ca.crt}]}
{{- end }}
{{- with $account.externalAccount }}
{{- if .id }}
- secret: {name: {{ required (printf "certificates.acme.accounts.%s.externalAccount.secretName: which Secret has the key" $name) .secretName }}, items: [{key: {{ default "key" .secretKey }}, path: {{ $name }}/key}]}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
