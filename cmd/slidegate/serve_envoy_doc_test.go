package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// originalSettings are all settings of envoyproxy/ratelimit; a name that ends in _ is the prefix of several.
var originalSettings = strings.Fields(`
	PROTO HOST PORT DEBUG_HOST DEBUG_PORT GRPC_UDS GRPC_HOST GRPC_PORT GRPC_MAX_CONNECTION_AGE GRPC_MAX_CONNECTION_AGE_GRACE
	GRPC_SERVER_USE_TLS GRPC_SERVER_TLS_CERT GRPC_CLIENT_TLS_CACERT GRPC_CLIENT_TLS_SAN LOG_LEVEL LOG_FORMAT CONFIG_TYPE
	FORCE_START_WITHOUT_INITIAL_CONFIG CONFIG_GRPC_XDS_ XDS_CLIENT_ USE_DOG_STATSD USE_STATSD STATSD_ EXTRA_TAGS STATS_FLUSH_INTERVAL
	DISABLE_STATS USE_PROMETHEUS PROMETHEUS_ADDR PROMETHEUS_PATH PROMETHEUS_MAPPER_YAML RUNTIME_ROOT RUNTIME_SUBDIRECTORY
	RUNTIME_APPDIRECTORY RUNTIME_IGNOREDOTFILES
	RUNTIME_WATCH_ROOT EXPIRATION_JITTER_MAX_SECONDS LOCAL_CACHE_SIZE_IN_BYTES NEAR_LIMIT_RATIO CACHE_KEY_PREFIX BACKEND_TYPE
	STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT LIMIT_RESPONSE_HEADERS_ENABLED LIMIT_LIMIT_HEADER LIMIT_REMAINING_HEADER
	LIMIT_RESET_HEADER HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED REDIS_SOCKET_TYPE REDIS_TYPE REDIS_URL REDIS_POOL_SIZE REDIS_AUTH
	REDIS_TLS REDIS_TLS_CLIENT_CERT REDIS_TLS_CACERT REDIS_TLS_SKIP_HOSTNAME_VERIFICATION REDIS_PIPELINE_WINDOW
	REDIS_PIPELINE_LIMIT REDIS_PERSECOND REDIS_PERSECOND_ REDIS_HEALTH_CHECK_ACTIVE_CONNECTION MEMCACHE_ SHADOW_MODE QUOTA_MODE
	MERGE_DOMAIN_CONFIG TRACING_`)

// The page about moving covers every setting of envoyproxy/ratelimit. It and docs/envoy.md name only flags that exist, and the Envoy
// configuration adds no headers of its own to those that Slidegate adds by default.
func TestEnvoyDoc(t *testing.T) {
	text, moving := readDoc(t, "envoy.md"), readDoc(t, "migrate/envoyproxy-ratelimit.md")
	for _, setting := range originalSettings {
		if !regexp.MustCompile("`" + setting + "(\\*?`|\\*)").MatchString(moving) {
			t.Errorf("%s is not mentioned", setting)
		}
	}
	flags := allFlags(t, "serve")
	for _, flag := range regexp.MustCompile("`--[a-z][a-z-]*").FindAllString(text+moving, -1) {
		if !flags[flag[1:]] {
			t.Errorf("unknown flag %s", flag[1:])
		}
	}
	envoy, _, _ := strings.Cut(text, "And the rules:")
	if strings.Contains(envoy, "enable_x_ratelimit_headers") {
		t.Error("the configuration of Envoy adds a second set of headers")
	}
}

func readDoc(t *testing.T, name string) string {
	t.Helper()
	read, err := os.ReadFile(filepath.Join("..", "..", "docs", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(read)
}
