{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}
{{- define "tensord.name" -}}
{{- if contains "tensord" .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-tensord{{ end }}
{{- end -}}

{{- define "tensord.selector" -}}
app.kubernetes.io/name: tensord
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tensord.labels" -}}
{{ include "tensord.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "tensord.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- /* The user's folders, of the node and at the same place of every pod. */ -}}
{{- define "tensord.run" -}}{{ .Values.folders.run }}/{{ int64 .Values.user }}{{- end -}}
{{- define "tensord.stores" -}}{{ .Values.folders.store }}/{{ int64 .Values.user }}{{- end -}}
{{- define "tensord.address" -}}unix:{{ include "tensord.run" . }}/tensord.sock{{- end -}}

{{- define "tensord.priorityClass" -}}
{{ .Values.priorityClassName | default (include "tensord.name" .) }}
{{- end -}}

{{- /* Texts of JSON are texts of TOML. The store is a folder that the daemon makes, with its mode. */ -}}
{{- define "tensord.toml" -}}
address = {{ include "tensord.address" . | toJson }}
store = {{ printf "%s/store" (include "tensord.stores" .) | toJson }}
{{- range $key, $value := .Values.config }}
{{ $key }} = {{ $value | toJson }}
{{- end }}
{{- with .Values.fleet }}
{{- if .url }}
fleet = {{ .url | toJson }}
{{- end }}
{{- if .trust }}
fleet_trust = "/etc/tensord/fleet.trust"
{{- end }}
{{- if .signKey }}
fleet_sign_key = {{ printf "/run/secrets/tensord/%s" .signKey | toJson }}
{{- end }}
{{- if .password }}
fleet_password_file = {{ printf "/run/secrets/tensord/%s" .password | toJson }}
{{- end }}
{{- if .ca }}
fleet_ca = {{ printf "/run/secrets/tensord/%s" .ca | toJson }}
{{- end }}
{{- end }}
{{- if .Values.metrics.enabled }}
metrics_address = {{ printf "0.0.0.0:%d" (int64 .Values.metrics.port) | toJson }}
{{- end }}
{{- end -}}
