{{/* What all processes of the program share. Those that take a dict get `root`, the chart's whole context, and `part`. */}}

{{- define "mnemoscope.name" -}}
{{- if contains "mnemoscope" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-mnemoscope" (.Release.Name | trunc 39 | trimSuffix "-") }}{{ end }}
{{- end }}

{{- define "mnemoscope.selector" -}}
app.kubernetes.io/name: mnemoscope
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- define "mnemoscope.labels" -}}
{{ include "mnemoscope.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{/* Settings of the values go before those that follow from other values. */}}
{{- define "mnemoscope.environment" -}}
{{- $name := include "mnemoscope.name" . -}}
{{- $origin := printf "%s://%s" (ternary "https" "http" .Values.tls) .Values.host -}}
{{- $settings := dict "PUBLIC_URL" $origin "PROMETHEUS_MULTIPROC_DIR" "/tmp/metrics" -}}
{{- $settings = set $settings "ALLOWED_HOSTS" (printf "%s,%s,%s.%s.svc,localhost" .Values.host $name $name .Release.Namespace) -}}
{{- if .Values.tls -}}
{{- $settings = merge $settings (dict "SECURE_COOKIES" "true" "CSRF_TRUSTED_ORIGINS" $origin) -}}
{{- end -}}
{{- with .Values.redisUrl -}}
{{- $settings = set $settings "REDIS_URL" . -}}
{{- end -}}
{{- with .Values.database -}}
{{- if .host -}}
{{- $address := printf "%s:%d/%s" .host (int .port) .name -}}
{{- $settings = set $settings "DATABASE_URL" (printf "postgresql://%s:$(DATABASE_PASSWORD)@%s" .user $address) -}}
{{- end -}}
{{- end -}}
envFrom:
  - secretRef:
      name: {{ .Values.secret }}
env:
  {{- if .Values.database.host }}
  # Before the address that contains it.
  - name: DATABASE_PASSWORD
    valueFrom:
      secretKeyRef:
        name: {{ .Values.secret }}
        key: DATABASE_PASSWORD
  {{- end }}
  {{- range $setting, $value := mergeOverwrite $settings .Values.settings }}
  - name: {{ $setting }}
    value: {{ $value | quote }}
  {{- end }}
{{- end }}

{{/* A process that writes nothing but its data and /tmp. */}}
{{- define "mnemoscope.container" -}}
image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{ include "mnemoscope.environment" . }}
volumeMounts:
  - name: data
    mountPath: /data
  - name: static
    mountPath: /data/static
  - name: tmp
    mountPath: /tmp
{{- end }}

{{/* No token of the cluster, and no variables that name its services: some would be taken for settings. */}}
{{- define "mnemoscope.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if and (ne .part "migrate") (eq .root.Values.persistence.accessMode "ReadWriteOnce") }}
affinity:
  podAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            app.kubernetes.io/name: mnemoscope
            app.kubernetes.io/instance: {{ .root.Release.Name }}
          matchExpressions:
            - key: app.kubernetes.io/component
              operator: In
              values: [web, worker, beat]
{{- end }}
volumes:
  - name: data
    {{- if eq .part "migrate" }}
    emptyDir: {}
    {{- else }}
    persistentVolumeClaim:
      claimName: {{ .root.Values.persistence.existingClaim | default (include "mnemoscope.name" .root) }}
    {{- end }}
  - name: static
    emptyDir: {}
  - name: tmp
    emptyDir: {}
{{- end }}
