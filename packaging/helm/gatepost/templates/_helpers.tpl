{{- define "gatepost.name" -}}
{{- if contains "gatepost" .Release.Name -}}
{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-gatepost" .Release.Name | trunc 52 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{- define "gatepost.selector" -}}
app.kubernetes.io/name: gatepost
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "gatepost.labels" -}}
{{ include "gatepost.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* The ports as lines "NAME NUMBER": one of each enabled listener, and its TLS port. */}}
{{- define "gatepost.ports" -}}
{{- $tls := .Values.tls -}}
{{- range $name, $listener := .Values.listeners -}}
{{- if $listener.enabled }}
{{ $name }} {{ $listener.port }}
{{- if and $tls.secretName (hasKey $tls.ports $name) }}
{{ $name }}-tls {{ get $tls.ports $name }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* gatepost.toml. Every listener is named, since the defaults bind to loopback, where no other pod
     reaches it. */}}
{{- define "gatepost.toml" -}}
{{- $tls := .Values.tls -}}
data = "/data"
access_log.path = "/data/access.log"
{{- if .Values.pages }}
pages.path = "/etc/gatepost/pages"
{{- end }}
{{- if .Values.procedures }}
procedures.path = "/etc/gatepost/procedures"
{{- end }}
{{ range $name, $listener := .Values.listeners }}
[listeners.{{ $name }}]
{{- if $listener.enabled }}
bind = ["0.0.0.0:{{ $listener.port }}"]
{{- with $listener.settings }}
{{ . | trimSuffix "\n" }}
{{- end }}
{{- if and $tls.secretName (hasKey $tls.ports $name) }}
tls.bind = ["0.0.0.0:{{ get $tls.ports $name }}"]
tls.cert = "/etc/gatepost/tls/tls.crt"
tls.key = "/etc/gatepost/tls/tls.key"
{{- end }}
{{- else }}
bind = []
{{- end }}
{{ end }}
{{- with .Values.backbone }}
{{- if .enabled }}
[backbone]
nats = {{ toJson .nats }}
monitoring = {{ toJson .monitoring }}
{{- if .credentialsSecret }}
credentials = "/etc/gatepost/nats/nats.creds"
{{- end }}
replicas = {{ .replicas }}
partitions = {{ .partitions }}
adopt_after = {{ .adoptAfter | quote }}
{{- with .settings }}
{{ . | trimSuffix "\n" }}
{{- end }}
{{ end }}
{{- end }}
{{- with .Values.config }}
{{ . | trimSuffix "\n" }}
{{ end -}}
{{- end -}}
