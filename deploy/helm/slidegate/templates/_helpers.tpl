{{- define "slidegate.selector" -}}
app.kubernetes.io/name: slidegate
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "slidegate.labels" -}}
{{ include "slidegate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{/* What the schema of the values cannot say. */}}
{{- define "slidegate.check" -}}
{{- $url := or .Values.storeURL.value .Values.storeURL.secret -}}
{{- if hasKey .Values.config "store" -}}
{{- fail "config.store: the chart writes it; set store and storeURL instead" -}}
{{- else if and (eq .Values.store "nats") (not (has (int .Values.replicas) (list 1 3 5))) -}}
{{- fail (printf "replicas: must be 1, 3 or 5 with store: nats, not %v: a majority of the instances decides" .Values.replicas) -}}
{{- else if and $url (eq .Values.store "nats") -}}
{{- fail "storeURL: has no effect with store: nats, whose counts are in the service; remove it" -}}
{{- else if and .Values.storeURL.value .Values.storeURL.secret -}}
{{- fail "storeURL: set value or secret, not both" -}}
{{- else if and .Values.storeURL.value (ne (eq .Values.store "postgres") (hasPrefix "postgres" .Values.storeURL.value)) -}}
{{- fail (printf "storeURL.value: is the URL of another store than store: %s; change one of them" .Values.store) -}}
{{- else if and .Values.redis.create (or $url (ne .Values.store "redis")) -}}
{{- fail "redis.create: is only for store: redis without a storeURL; remove one of them" -}}
{{- else if le (int .Values.terminationGracePeriodSeconds) (add .Values.drainDelay 10 | int) -}}
{{- fail "terminationGracePeriodSeconds: must be more than drainDelay and the 10 seconds of --drain" -}}
{{- end -}}
{{- end }}

{{/* The URL of the store, as the policy file has it. Secrets and the names of pods are files and variables of the container. */}}
{{- define "slidegate.store" -}}
{{- if eq .Values.store "nats" -}}
{{- $service := printf "%s-cluster.${POD_NAMESPACE}.svc.%s:6222" .Release.Name .Values.nats.clusterDomain -}}
nats:embedded?dir=/var/lib/slidegate/nats
{{- if gt (int .Values.replicas) 1 -}}
{{- $members := list -}}
{{- range $i := until (int .Values.replicas) -}}
{{- $members = append $members (printf "%s-%d.%s" $.Release.Name $i $service) -}}
{{- end -}}
&route=${POD_NAME}.{{ $service }}&cluster={{ join "," $members }}&secret=${file:/etc/slidegate-cluster/secret}
{{- end -}}
{{- else if .Values.redis.create -}}
redis://{{ .Release.Name }}-redis:6379
{{- else if .Values.storeURL.secret -}}
${file:/etc/slidegate-store/url}
{{- else -}}
{{ required (printf "storeURL: is missing; set storeURL.value to the URL of your %s, or storeURL.secret to a Secret that has it: kubectl create secret generic slidegate-store --from-literal=url=%s://USER:PASSWORD@HOST%s" .Values.store .Values.store (ternary "; or set redis.create=true for a small Redis to try it with" "/DATABASE" (eq .Values.store "redis"))) .Values.storeURL.value }}
{{- end -}}
{{- end }}

{{/* The pod of the Deployment and of the StatefulSet. */}}
{{- define "slidegate.pod" -}}
metadata:
  labels:
    {{- include "slidegate.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- if or (not .Values.monitoring.enabled) .Values.podAnnotations }}
  annotations:
    {{- if not .Values.monitoring.enabled }}
    prometheus.io/scrape: "true"
    prometheus.io/port: "8083"
    {{- end }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
spec:
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }} # more than --drain-delay and --drain
  automountServiceAccountToken: false
  enableServiceLinks: false
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    seccompProfile: {type: RuntimeDefault}
  topologySpreadConstraints:
    {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
    - maxSkew: 1
      topologyKey: {{ . }}
      whenUnsatisfiable: {{ $.Values.spread }}
      labelSelector:
        matchLabels:
          {{- include "slidegate.selector" $ | nindent 10 }}
    {{- end }}
  containers:
    - name: slidegate
      image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        - serve
        - --config=/etc/slidegate/slidegate.yaml
        - --http=0.0.0.0:8080
        - --grpc=0.0.0.0:8081
        - --resp=0.0.0.0:6380
        - --admin=0.0.0.0:8082
        - --metrics=0.0.0.0:8083 # for Prometheus, which has no token; metrics contain no keys
        - --tokens-file=/etc/slidegate-tokens/tokens
        - --admin-tokens-file=/etc/slidegate-tokens/admin-tokens
        # After SIGTERM it keeps serving, until the nodes have noticed that it is stopping.
        - --drain-delay={{ .Values.drainDelay }}s
        - --instances={{ .Values.replicas }} # while the store is down, each counts against its share of each limit
        - --log-format=json
        {{- range .Values.args }}
        - {{ . | quote }}
        {{- end }}
      env:
        - {name: GOMEMLIMIT, value: {{ .Values.goMemoryLimit | quote }}}
        {{- if eq .Values.store "nats" }}
        - name: POD_NAME
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        - name: POD_NAMESPACE
          valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
        {{- end }}
      ports:
        - {name: http, containerPort: 8080}
        - {name: grpc, containerPort: 8081}
        - {name: resp, containerPort: 6380}
        - {name: admin, containerPort: 8082}
        - {name: metrics, containerPort: 8083}
        {{- if eq .Values.store "nats" }}
        - {name: cluster, containerPort: 6222}
        {{- end }}
      {{- if eq .Values.store "nats" }}
      # A pod that was replaced is ready once it reaches the cluster: only then may the next one be replaced.
      startupProbe:
        httpGet: {path: "/readyz?require=store", port: http}
        periodSeconds: 2
        failureThreshold: 300
      {{- end }}
      livenessProbe:
        httpGet: {path: /healthz, port: http}
      # It stays ready while the store is down, since failure: local still decides; a policy with failure: closed would change that.
      readinessProbe:
        httpGet: {path: /readyz, port: http}
        periodSeconds: 2
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        readOnlyRootFilesystem: true
        allowPrivilegeEscalation: false
        capabilities: {drop: [ALL]}
      volumeMounts:
        - {name: config, mountPath: /etc/slidegate, readOnly: true}
        - {name: tokens, mountPath: /etc/slidegate-tokens, readOnly: true}
        {{- if eq .Values.store "nats" }}
        - {name: data, mountPath: /var/lib/slidegate}
        {{- if gt (int .Values.replicas) 1 }}
        - {name: cluster, mountPath: /etc/slidegate-cluster, readOnly: true}
        {{- end }}
        {{- else if .Values.storeURL.secret }}
        - {name: store, mountPath: /etc/slidegate-store, readOnly: true}
        {{- end }}
  volumes: # whole folders, no subPath: their files change without a rollout
    - name: config
      configMap: {name: {{ .Release.Name }}}
    - name: tokens
      secret:
        secretName: {{ required "tokens.secret: is missing; create a Secret, and set its name: kubectl create secret generic slidegate-tokens --from-literal=tokens=\"$(openssl rand -base64 24)\" --from-literal=admin-tokens=\"ops:operator:$(openssl rand -base64 24)\"" .Values.tokens.secret }}
        defaultMode: 0440
    {{- if and (eq .Values.store "nats") (gt (int .Values.replicas) 1) }}
    - name: cluster
      secret:
        secretName: {{ required "nats.secret: is missing; create a Secret, and set its name: kubectl create secret generic slidegate-cluster --from-literal=secret=\"$(openssl rand -base64 24)\"" .Values.nats.secret }}
        defaultMode: 0440
    {{- else if .Values.storeURL.secret }}
    - name: store
      secret: {secretName: {{ .Values.storeURL.secret }}, defaultMode: 0440}
    {{- end }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
{{- end }}
