{{- define "tracecloak.labels" -}}
app.kubernetes.io/name: tracecloak
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* The image of (chart, name, digest), by tag and digest. */}}
{{- define "tracecloak.image" -}}
{{- $image := (index . 0).Values.image -}}
{{ $image.registry }}/{{ index . 1 }}:{{ $image.tag }}@{{ index . 2 }}
{{- end }}

{{- define "tracecloak.claim" -}}
{{ .Values.storage.existingClaim | default (printf "%s-shared" .Release.Name) }}
{{- end }}

{{- /* Whether a pod of the chart uses the shared volume. */}}
{{- define "tracecloak.shares" -}}
{{- if or .Values.windows.enabled .Values.release.enabled .Values.flink.enabled (and .Values.stream.enabled (eq (include "tracecloak.runner" .Values.stream) "FlinkRunner")) -}}true{{- end }}
{{- end }}

{{- define "tracecloak.runner" -}}
{{ .configuration.runner | default "Local" }}
{{- end }}

{{- /* The flags by which a pipeline reaches the cluster of the chart. */}}
{{- define "tracecloak.flinkFlags" -}}
- --runner=FlinkRunner
- --job_endpoint={{ .Release.Name }}-job-server:8099
- --artifact_endpoint={{ .Release.Name }}-job-server:8098
- --environment_type=EXTERNAL
- --environment_config=localhost:50000
{{- end }}

{{- /* Configuration (chart, configuration, defaults): what the user gives wins. */}}
{{- define "tracecloak.configuration" -}}
{{- $places := dict "output" "/var/lib/tracecloak/releases" "key_store" "/var/lib/tracecloak/keys" -}}
{{- toYaml (mergeOverwrite $places (index . 2) (deepCopy (index . 1))) -}}
{{- end }}

{{- define "tracecloak.secured" -}}
runAsUser: 10001
runAsNonRoot: true
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "tracecloak.keys" -}}
- {name: TRACECLOAK_KEY_ENCRYPTION_KEY, value: "env:KEY_ENCRYPTION_KEY"}
- {name: TRACECLOAK_DEPLOYMENT_KEY, value: "env:DEPLOYMENT_KEY"}
- name: KEY_ENCRYPTION_KEY
  valueFrom: {secretKeyRef: {name: {{ .Values.secrets.keys }}, key: key-encryption-key}}
- name: DEPLOYMENT_KEY
  valueFrom: {secretKeyRef: {name: {{ .Values.secrets.keys }}, key: deployment-key}}
{{- end }}

{{- /* What every pod of tracecloak has, but its container. */}}
{{- define "tracecloak.pod" -}}
serviceAccountName: {{ .Release.Name }}
automountServiceAccountToken: false
securityContext: {fsGroup: 10001}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* A container of tracecloak, but for its arguments. */}}
{{- define "tracecloak.container" -}}
name: tracecloak
image: {{ include "tracecloak.image" (list . "tracecloak" .Values.image.digests.tracecloak) }}
command: [tracecloak]
securityContext: {{- include "tracecloak.secured" . | nindent 2 }}
env:
  # The ledger's URL has neither: they reach the driver of PostgreSQL by its own names.
  - name: PGUSER
    valueFrom: {secretKeyRef: {name: {{ .Values.secrets.ledger }}, key: username}}
  - name: PGPASSWORD
    valueFrom: {secretKeyRef: {name: {{ .Values.secrets.ledger }}, key: password}}
  {{- include "tracecloak.keys" . | nindent 2 }}
{{- end }}

{{- /* Mounts and volumes that need no claim of the pod's own. */}}
{{- define "tracecloak.mounts" -}}
- {name: scratch, mountPath: /tmp}
{{- if .Values.secrets.kafka }}
- {name: kafka, mountPath: /etc/kafka, readOnly: true}
{{- end }}
{{- if .Values.storage.inputClaim }}
- {name: input, mountPath: /var/lib/tracecloak/input, readOnly: true}
{{- end }}
{{- end }}

{{- define "tracecloak.sharedMount" -}}
- {name: shared, mountPath: /var/lib/tracecloak, subPath: tracecloak}
{{- end }}

{{- define "tracecloak.volumes" -}}
- {name: scratch, emptyDir: {}}
{{- with .Values.secrets.kafka }}
- {name: kafka, secret: {secretName: {{ . }}}}
{{- end }}
{{- with .Values.storage.inputClaim }}
- {name: input, persistentVolumeClaim: {claimName: {{ . }}, readOnly: true}}
{{- end }}
{{- end }}

{{- define "tracecloak.sharedVolume" -}}
- {name: shared, persistentVolumeClaim: {claimName: {{ include "tracecloak.claim" . }}}}
{{- end }}

{{- /* A Job of (chart, part, name): one release, or a stream that is handed to Flink. */}}
{{- define "tracecloak.job" -}}
{{- $top := index . 0 }}{{- $part := index . 1 }}{{- $kind := index . 2 }}
{{- $name := printf "%s-%s" $top.Release.Name $kind }}
{{- $isOnFlink := eq (include "tracecloak.runner" $part) "FlinkRunner" }}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ $name }}
  labels: {{- include "tracecloak.labels" $top | nindent 4 }}
data:
  {{ $kind }}.yaml: |
    {{- include "tracecloak.configuration" (list $top $part.configuration dict) | nindent 4 }}
---
apiVersion: batch/v1
kind: Job
metadata:
  # A Job cannot be changed: another configuration is another Job.
  name: {{ $name }}-{{ list $part.configuration $part.flags $top.Values.image | toJson | sha256sum | trunc 8 }}
  labels: {{- include "tracecloak.labels" $top | nindent 4 }}
spec:
  # Running a release again finishes it and is charged nothing. Flink continues a stream without its Job.
  backoffLimit: {{ eq $kind "stream" | ternary 0 3 }}
  template:
    metadata:
      labels: {{- include "tracecloak.labels" $top | nindent 8 }}
    spec:
      restartPolicy: Never
      {{- include "tracecloak.pod" $top | nindent 6 }}
      containers:
        - {{- include "tracecloak.container" $top | nindent 10 }}
          args:
            - {{ $kind }}
            - /etc/tracecloak/{{ $kind }}.yaml
            {{- if $isOnFlink }}
            {{- include "tracecloak.flinkFlags" $top | nindent 12 }}
            {{- if eq $kind "stream" }}
            - --checkpointing_interval=10000
            {{- end }}
            {{- end }}
            {{- with $part.flags }}{{ toYaml . | nindent 12 }}{{- end }}
          resources: {{- toYaml $part.resources | nindent 12 }}
          volumeMounts:
            - {name: configuration, mountPath: /etc/tracecloak, readOnly: true}
            {{- include "tracecloak.sharedMount" $top | nindent 12 }}
            {{- include "tracecloak.mounts" $top | nindent 12 }}
      volumes:
        - {name: configuration, configMap: {name: {{ $name }}}}
        {{- include "tracecloak.sharedVolume" $top | nindent 8 }}
        {{- include "tracecloak.volumes" $top | nindent 8 }}
{{- end }}
