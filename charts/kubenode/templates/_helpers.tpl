{{/*
Documents of a file of this chart, but for those of `without` (KIND/NAME). Files hold no templates.
With cert-manager the Secrets of certificates are its own, and so is what webhooks are to trust: no
program has the right to publish that. `bundle`, if given, is what the webhooks trust.
*/}}
{{- define "kubenode.file" -}}
{{- $managed := .root.Values.certManager.enabled }}
{{- range (.root.Files.Get .name | splitList "\n---\n") }}
{{- $one := fromYaml . }}
{{- if and $one (not (has (printf "%s/%s" $one.kind $one.metadata.name) (default list $.without))) }}
{{- if not (and $managed (or (eq $one.kind "Secret") (hasSuffix "-publish-ca" $one.metadata.name))) }}
---
{{- if and $managed (hasSuffix "WebhookConfiguration" $one.kind) }}
{{- $secret := ternary $one.metadata.name (printf "%s-webhook" $one.metadata.name) (eq $one.metadata.name "kubenode-defender") }}
{{- $_ := set $one.metadata "annotations" (dict "cert-manager.io/inject-ca-from" (printf "kubenode-system/%s" $secret)) }}
{{ toYaml $one }}
{{- else if and $.bundle (hasSuffix "WebhookConfiguration" $one.kind) }}
{{- range $one.webhooks }}{{ $_ := set .clientConfig "caBundle" $.bundle }}{{ end }}
{{ toYaml $one }}
{{- else }}
{{ . | trim }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/*
Values of the certificate of a webhook (remedy.webhook, machine.webhook or defender.guard).
`helm upgrade --reuse-values` takes the values of the release before, which may not have these.
*/}}
{{- define "kubenode.certificateValues" -}}
{{- $defaults := dict "source" "Helm" "generation" 1 "days" 3650 "existingSecret" "" "caBundle" "" }}
{{- mergeOverwrite $defaults (.certificate | default dict) | toYaml }}
{{- end -}}

{{/* Not empty where Helm writes the certificate of a webhook, or names its Secret: root, hook (values). */}}
{{- define "kubenode.webhookByHelm" -}}
{{- if and .hook.enabled (not .root.Values.certManager.enabled) (eq (include "kubenode.certificateValues" .hook | fromYaml).source "Helm") }}yes{{ end }}
{{- end -}}

{{/* The Secret with the certificate of a webhook, where Helm writes or names it: hook (values), name. */}}
{{- define "kubenode.webhookSecret" -}}
{{- (include "kubenode.certificateValues" .hook | fromYaml).existingSecret | default (printf "%s-tls" .name) }}
{{- end -}}

{{/*
Objects of a file with a webhook, and its certificate:
  root, name     as of kubenode.file
  hook           values of the webhook
  certificate    name of the certificate; its Secret is NAME-tls
  service        Service that leads to the webhook
  older          Secret that the program fills where it makes the certificate itself
  without        as of kubenode.file, where Helm writes the certificate
A Secret of the same generation is kept. The name is not that of the Secret which older programs fill:
those that still run would write into it. What callers trusted before goes on being trusted until the
next upgrade, so no replica is refused during a rollout. An upgrade that failed on the way leaves the
right to publish, so the next one still trusts what the older program published. The key of the
authority is kept nowhere: nobody can sign another certificate.
*/}}
{{- define "kubenode.webhook" -}}
{{- if not (include "kubenode.webhookByHelm" .) }}
{{- include "kubenode.file" (dict "root" .root "name" .name) }}
{{- else }}
{{- $wanted := include "kubenode.certificateValues" .hook | fromYaml }}
{{- $bundle := b64enc $wanted.caBundle }}
{{- if not $wanted.existingSecret }}
{{- $name := include "kubenode.webhookSecret" (dict "hook" .hook "name" .certificate) }}
{{- $found := lookup "v1" "Secret" "kubenode-system" $name | default dict }}
{{- $data := $found.data | default dict }}
{{- $made := dig "metadata" "annotations" "kubenode.io/generation" "" $found }}
{{- $whole := and (index $data "tls.crt") (index $data "tls.key") (index $data "ca.crt") }}
{{- $older := (lookup "v1" "Secret" "kubenode-system" .older | default dict).data | default dict }}
{{- $crt := "" }}{{ $key := "" }}{{ $ca := "" }}{{ $before := "" }}
{{- if and $whole (eq $made (toString (int $wanted.generation))) }}
{{- $crt = index $data "tls.crt" }}{{ $key = index $data "tls.key" }}{{ $ca = index $data "ca.crt" }}
{{- if lookup "rbac.authorization.k8s.io/v1" "ClusterRoleBinding" "" (printf "kubenode-%s-publish-ca" (dir .name)) }}
{{- $before = index $older "ca.crt" | default "" }}
{{- end }}
{{- else }}
{{- $days := int $wanted.days }}
{{- $authority := genCA .certificate $days }}
{{- $host := printf "%s.kubenode-system" .service }}
{{- $signed := genSignedCert (printf "%s.svc" $host) nil (list (printf "%s.svc" $host) $host (printf "%s.svc.cluster.local" $host)) $days $authority }}
{{- $crt = b64enc $signed.Cert }}{{ $key = b64enc $signed.Key }}{{ $ca = b64enc $authority.Cert }}
{{- $before = index $data "ca.crt" | default (index $older "ca.crt") | default "" }}
{{- end }}
{{- $bundle = printf "%s%s" (b64dec $ca) (b64dec $before) | b64enc }}
---
apiVersion: v1
kind: Secret
metadata:
  name: {{ $name }}
  namespace: kubenode-system
  annotations:
    kubenode.io/generation: {{ int $wanted.generation | quote }}
type: kubernetes.io/tls
data:
  ca.crt: {{ $ca }}
  tls.crt: {{ $crt }}
  tls.key: {{ $key }}
{{- end }}
{{- include "kubenode.file" (dict "root" .root "name" .name "bundle" $bundle "without" .without) }}
{{- end }}
{{- end -}}

{{- define "kubenode.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}

{{/* `helm upgrade --reuse-values` takes the values of the release before, which may not have agent.image. */}}
{{- define "kubenode.agentImage" -}}
{{- $own := .Values.agent.image | default dict -}}
{{- if not $own.repository -}}
{{ include "kubenode.image" . }}
{{- else if $own.digest -}}
{{ $own.repository }}@{{ $own.digest }}
{{- else -}}
{{ $own.repository }}:{{ default .Chart.AppVersion $own.tag }}
{{- end -}}
{{- end -}}

{{- define "kubenode.selector" -}}
app.kubernetes.io/name: kubenode-{{ . }}
{{- end -}}

{{- define "kubenode.labels" -}}
{{ include "kubenode.selector" .part }}
app.kubernetes.io/part-of: kubenode
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
{{- end -}}

{{- define "kubenode.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "kubenode.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{/* Every replica by its own name: without Redis one of them answers, and the next is asked. */}}
{{- define "kubenode.defenderUrls" -}}
{{- $urls := list -}}
{{- range until (int .Values.defender.replicas) -}}
{{- $urls = append $urls (printf "https://kubenode-defender-%d.kubenode-defender-replicas.kubenode-system.svc:8443" .) -}}
{{- end -}}
{{- join "," $urls -}}
{{- end -}}

{{/* Flags of whoever asks Kube Defender. */}}
{{- define "kubenode.askerArgs" -}}
- --defender-url={{ include "kubenode.defenderUrls" . }}
- --defender-token-file=/etc/kubenode/defender/token
- --defender-ca-file=/etc/kubenode/defender/ca.crt
{{- end -}}

{{/*
What a caller of Kube Defender needs. The pod starts when Kube Defender has filled the Secret: a missing
key keeps kubelet waiting. The token is good for Kube Defender alone: the API server refuses it.
*/}}
{{- define "kubenode.defenderAccess" -}}
- name: defender
  projected:
    sources:
      - secret:
          name: kubenode-defender
          items: [{key: ca.crt, path: ca.crt}]
      - serviceAccountToken: {audience: kubenode-defender, path: token, expirationSeconds: 3600}
{{- end -}}

{{/*
A pod of a central program.
  root, part        and values of the part
  program           of `kubenode run`, if it is not the part
  args              its flags, as YAML
  ports             {name: number}, beside metrics
  health            port of /healthz, /readyz and /metrics
  secrets           {name of a folder in /etc/kubenode: name of a Secret}
  volumes, mounts   further ones, as YAML
  podIp             whether flags name $(POD_IP)
*/}}
{{- define "kubenode.pod" -}}
{{- $values := index .root.Values .part -}}
metadata:
  labels: {{- include "kubenode.labels" . | nindent 4 }}
spec:
  serviceAccountName: kubenode-{{ .part }}
  # Variables of Services would be read as settings: both begin with KUBENODE_.
  enableServiceLinks: false
  priorityClassName: {{ .root.Values.priorityClassName }}
  {{- with .root.Values.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext: {{- include "kubenode.podSecurity" . | nindent 4 }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels: {{- include "kubenode.selector" .part | nindent 10 }}
  {{- with $values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: {{ .part }}
      image: {{ include "kubenode.image" .root | quote }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      args:
        - run
        - {{ .program | default .part }}
        - --log-json
        - --health-address=0.0.0.0
        - --health-port={{ .health }}
        - --lineage-file=/tmp/lineage.json
        {{- .args | nindent 8 }}
      {{- if or .podIp $values.settings }}
      env:
        {{- if .podIp }}
        - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
        {{- end }}
        {{- range $name, $value := $values.settings }}
        - name: KUBENODE_{{ upper $name }}
          value: {{ $value | toString | quote }}
        {{- end }}
      {{- end }}
      ports:
        - {name: metrics, containerPort: {{ .health }}}
        {{- range $name, $number := .ports }}
        - {name: {{ $name }}, containerPort: {{ $number }}}
        {{- end }}
      # No startup of any size is killed: a restart would only begin it again.
      startupProbe:
        httpGet: {path: /healthz, port: metrics}
        periodSeconds: 5
        failureThreshold: 60
      livenessProbe:
        httpGet: {path: /healthz, port: metrics}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /readyz, port: metrics}
        periodSeconds: 5
        timeoutSeconds: 3
      resources: {{- toYaml $values.resources | nindent 8 }}
      securityContext: {{- include "kubenode.containerSecurity" . | nindent 8 }}
      volumeMounts:
        - {name: tmp, mountPath: /tmp}
        {{- with .mounts }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- range $folder, $secret := .secrets }}
        - {name: {{ $folder }}, mountPath: /etc/kubenode/{{ $folder }}, readOnly: true}
        {{- end }}
  volumes:
    - {name: tmp, emptyDir: {medium: Memory, sizeLimit: 64Mi}}
    {{- with .volumes }}
    {{- . | nindent 4 }}
    {{- end }}
    {{- range $folder, $secret := .secrets }}
    - {name: {{ $folder }}, secret: {secretName: {{ $secret }}}}
    {{- end }}
{{- end -}}

{{- define "kubenode.remedyArgs" }}
{{- include "kubenode.askerArgs" . }}
{{- if .Values.remedy.webhook.enabled }}
- --webhook-address=0.0.0.0
- --webhook-port=8443
{{- if include "kubenode.webhookByHelm" (dict "root" . "hook" .Values.remedy.webhook) }}
- --webhook-cert-file=/etc/kubenode/webhook/tls.crt
- --webhook-key-file=/etc/kubenode/webhook/tls.key
{{- end }}
{{- end }}
{{- if .Values.remedy.hostDoctor.enabled }}
- --host-doctor-address=0.0.0.0
- --host-doctor-port=8445
- --host-doctor-token-audience=kubenode-host-doctor
{{- with .Values.remedy.hostDoctor.tokensSecret }}
- --host-doctor-token-files=/etc/kubenode/tokens/tokens
{{- end }}
{{- end }}
{{- with .Values.remedy.receiversSecret }}
- --receivers-file=/etc/kubenode/receivers/receivers.yaml
{{- end }}
{{- with .Values.remedy.stream }}
{{- if .url }}
- --stream-url={{ .url }}
{{- if .tokenSecret }}
- --stream-token-file=/etc/kubenode/stream-token/token
{{- end }}
{{- if .caSecret }}
- --stream-ca-file=/etc/kubenode/stream-ca/ca.crt
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.providersSecret }}
- --providers-file=/etc/kubenode/providers/providers.yaml
{{- end }}
{{- end }}

{{- define "kubenode.machineArgs" }}
{{- include "kubenode.askerArgs" . }}
{{- if .Values.machine.webhook.enabled }}
- --webhook-address=0.0.0.0
- --webhook-port=8443
{{- if include "kubenode.webhookByHelm" (dict "root" . "hook" .Values.machine.webhook) }}
- --webhook-cert-file=/etc/kubenode/webhook/tls.crt
- --webhook-key-file=/etc/kubenode/webhook/tls.key
{{- end }}
{{- end }}
{{- with .Values.providersSecret }}
- --providers-file=/etc/kubenode/providers/providers.yaml
{{- end }}
{{- end }}

{{- define "kubenode.autoscalerArgs" }}
{{- include "kubenode.askerArgs" . }}
- --autoscaler-address=0.0.0.0
- --autoscaler-port=8089
- --autoscaler-cert-file=/etc/kubenode/autoscaler/tls.crt
- --autoscaler-key-file=/etc/kubenode/autoscaler/tls.key
- --autoscaler-ca-file=/etc/kubenode/autoscaler/ca.crt
{{- end }}

{{/* Not empty where one replica answers, however many there are. Of the values of defender. */}}
{{- define "kubenode.oneAnswers" -}}
{{- if not .redis.url }}yes{{ end }}
{{- end -}}

{{- define "kubenode.defenderArgs" }}
{{- $defender := .Values.defender }}
- --listen-address=0.0.0.0
- --listen-port=8443
- --token-audience=kubenode-defender
- --tls
- --tls-host=*.kubenode-defender-replicas.kubenode-system.svc
{{- if include "kubenode.oneAnswers" $defender }}
- --leader-address=$(POD_IP)
{{- end }}
{{- if $defender.guard.enabled }}
- --guard-address=0.0.0.0
- --guard-port=8444
{{- if include "kubenode.webhookByHelm" (dict "root" . "hook" $defender.guard) }}
- --guard-cert-file=/etc/kubenode/guard/tls.crt
- --guard-key-file=/etc/kubenode/guard/tls.key
{{- end }}
{{- end }}
{{- if $defender.dashboard.enabled }}
- --dashboard-address=0.0.0.0
- --dashboard-port=8446
{{- with $defender.dashboard.keySecret }}
- --dashboard-key-file=/etc/kubenode/dashboard/key
{{- end }}
{{- end }}
{{- with $defender.redis.url }}
- --redis-url={{ . }}
{{- end }}
{{- with $defender.redis.passwordSecret }}
- --redis-password-file=/etc/kubenode/redis-password/password
{{- end }}
{{- with $defender.redis.caSecret }}
- --redis-ca-file=/etc/kubenode/redis-ca/ca.crt
{{- end }}
{{- end }}

{{/* Flags of Captain's pages: captain.dashboard of the values. */}}
{{- define "kubenode.captainArgs" }}
{{- if .enabled }}
- --dashboard-address=0.0.0.0
- --dashboard-port=8091
{{- if .keySecret }}
- --dashboard-key-file=/etc/kubenode/dashboard/key
{{- end }}
{{- if .certificateSecret }}
- --tls-cert-file=/etc/kubenode/certificate/tls.crt
- --tls-key-file=/etc/kubenode/certificate/tls.key
{{- else }}
- --plain-http
{{- end }}
{{- end }}
{{- end }}

{{- define "kubenode.crdHook" }}
    helm.sh/hook: pre-upgrade
    helm.sh/hook-weight: {{ . | quote }}
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{- define "kubenode.binding" }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ . }}
subjects:
  - kind: ServiceAccount
    name: {{ . }}
    namespace: kubenode-system
{{- end }}

{{/* Of a Job that runs a command of kubenode: root, account, args. */}}
{{- define "kubenode.jobSpec" }}
backoffLimit: 3
activeDeadlineSeconds: 300
template:
  metadata:
    labels:
      app.kubernetes.io/name: kubenode-setup
  spec:
    serviceAccountName: {{ .account }}
    enableServiceLinks: false
    restartPolicy: Never
    {{- with .root.Values.imagePullSecrets }}
    imagePullSecrets: {{- toYaml . | nindent 6 }}
    {{- end }}
    securityContext: {{- include "kubenode.podSecurity" . | nindent 6 }}
    containers:
      - name: setup
        image: {{ include "kubenode.image" .root | quote }}
        imagePullPolicy: {{ .root.Values.image.pullPolicy }}
        args: {{- toYaml .args | nindent 10 }}
        securityContext: {{- include "kubenode.containerSecurity" . | nindent 10 }}
        volumeMounts:
          - {name: tmp, mountPath: /tmp}
    volumes:
      - {name: tmp, emptyDir: {medium: Memory, sizeLimit: 64Mi}}
{{- end }}
