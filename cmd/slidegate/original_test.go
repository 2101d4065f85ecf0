package main

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/config"
)

// Each set of variables of the original is the command line of serve that does the same.
func TestOriginalVariables(t *testing.T) {
	const always = " --http=0.0.0.0:8080 --grpc=0.0.0.0:8081 --resp=off --drain-delay=5s"
	for name, test := range map[string]struct{ variables, given, want string }{
		"the defaults": {"REDIS_URL=redis:6379", "",
			"serve --http=0.0.0.0:8080 --grpc=0.0.0.0:8081 --resp=off --drain-delay=5s --store=redis://redis:6379 --envoy=/srv/runtime_data/current/config --envoy-headers=none --log-level=warn"},
		"files": {"REDIS_URL=redis:6379 RUNTIME_ROOT=/data RUNTIME_SUBDIRECTORY=ratelimit RUNTIME_APPDIRECTORY=rules LIMIT_RESPONSE_HEADERS_ENABLED=true SHADOW_MODE=true LOG_LEVEL=DEBUG LOG_FORMAT=json", "",
			"serve" + always + " --store=redis://redis:6379 --envoy=/data/ratelimit/rules --envoy-headers=response --envoy-shadow=true --log-level=debug --log-format=json"},
		"addresses": {"REDIS_URL=r:1 CONFIG_TYPE=GRPC_XDS_SOTW HOST=127.0.0.1 PORT=1 GRPC_HOST=::1 GRPC_PORT=2 USE_PROMETHEUS=true PROMETHEUS_ADDR=:19001 LOG_LEVEL=info", "",
			"serve --http=127.0.0.1:1 --grpc=[::1]:2 --resp=off --metrics=0.0.0.0:19001 --drain-delay=5s --store=redis://r:1 --envoy-headers=none --log-level=info"},
		"a socket and TLS": {"REDIS_URL=r:1 CONFIG_TYPE=GRPC_XDS_SOTW GRPC_UDS=/run/s GRPC_SERVER_USE_TLS=true GRPC_SERVER_TLS_CERT=c GRPC_SERVER_TLS_KEY=k GRPC_CLIENT_TLS_CACERT=a", "",
			"serve --http=0.0.0.0:8080 --grpc=unix:/run/s --resp=off --drain-delay=5s --store=redis://r:1 --tls-cert=c --tls-key=k --tls-client-ca=a --envoy-headers=none --log-level=warn"},
		"our own variables and flags first": {"SLIDEGATE_STORE=nats:embedded?dir=x SLIDEGATE_DRAIN_DELAY=1s CONFIG_TYPE=GRPC_XDS_SOTW", "--log-level=error",
			"serve --http=0.0.0.0:8080 --grpc=0.0.0.0:8081 --resp=off --envoy-headers=none --log-level=warn --log-level=error"},
		"the store of a flag": {"CONFIG_TYPE=GRPC_XDS_SOTW", "--store memory:", "serve" + always + " --envoy-headers=none --log-level=warn --store memory:"},
		"the store of a file": {"SLIDEGATE_CONFIG=f.yaml REDIS_URL=r:1 CONFIG_TYPE=GRPC_XDS_SOTW", "", "serve" + always + " --envoy-headers=none --log-level=warn"},
	} {
		o := &original{get: variables(test.variables)}
		if got := strings.Join(o.arguments(strings.Fields(test.given)), " "); got != test.want || len(o.errs) > 0 {
			t.Errorf("%s: got\n%s, %v, want\n%s", name, got, o.errs, test.want)
		}
	}
}

// variables returns a function that looks up variables, written as NAME=VALUE between spaces.
func variables(text string) func(string) string {
	all := map[string]string{}
	for _, one := range strings.Fields(text) {
		name, value, _ := strings.Cut(one, "=")
		all[name] = value
	}
	return func(name string) string { return all[name] }
}

// The variables of Redis are the URL of the store.
func TestOriginalStores(t *testing.T) {
	for text, want := range map[string]string{
		"REDIS_URL=redis.ns.svc:6379 REDIS_SOCKET_TYPE=tcp":                         "redis://redis.ns.svc:6379",
		"REDIS_URL=redis://redis:6379/2 REDIS_TLS=true":                             "rediss://redis:6379/2",
		"REDIS_URL=rediss://redis:6379":                                             "rediss://redis:6379",
		"REDIS_URL=r:1 REDIS_AUTH=p@ss":                                             "redis://:p%40ss@r:1",
		"REDIS_URL=r:1 REDIS_AUTH=ann:p:w CACHE_KEY_PREFIX=a:":                      "redis://ann:p%3Aw@r:1?prefix=a%3A",
		"REDIS_URL=a:1,b:2 REDIS_TYPE=cluster REDIS_SOCKET_TYPE=tls":                "rediss+cluster://a:1,b:2",
		"REDIS_URL=main,a:1,b:2 REDIS_TYPE=SENTINEL REDIS_SENTINEL_AUTH=p":          "redis+sentinel://a:1,b:2/main?sentinel_password=p",
		"REDIS_URL=r:1 REDIS_TLS_SKIP_HOSTNAME_VERIFICATION=true REDIS_PERSECOND=0": "redis://r:1",
		"REDIS_URL=r:1 REDIS_TLS=1 REDIS_TLS_SKIP_HOSTNAME_VERIFICATION=1":          "rediss://r:1?skip_verify=true",
	} {
		o := &original{get: variables(text)}
		if got := o.store(); got != want || len(o.errs) > 0 {
			t.Errorf("%s: got %s, %v, want %s", text, got, o.errs, want)
		}
	}
}

// The management server has the settings that the original's client has.
func TestOriginalManagementServer(t *testing.T) {
	o := &original{get: variables("CONFIG_TYPE=GRPC_XDS_SOTW CONFIG_GRPC_XDS_SERVER_URL=eg:18001 CONFIG_GRPC_XDS_NODE_ID=n CONFIG_GRPC_XDS_NODE_METADATA=zone:a,rack=b " +
		"CONFIG_GRPC_XDS_SERVER_USE_TLS=true CONFIG_GRPC_XDS_SERVER_TLS_CACERT=ca CONFIG_GRPC_XDS_SERVER_TLS_SAN=san CONFIG_GRPC_XDS_CLIENT_TLS_CERT=c CONFIG_GRPC_XDS_CLIENT_TLS_KEY=k")}
	want := config.XDS{Address: "eg:18001", Node: "n", Metadata: map[string]string{"zone": "a", "rack": "b"}, Headers: map[string]string{}, TLS: true, CA: "ca", ServerName: "san", Cert: "c", Key: "k"}
	if got := o.xds(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := (&original{get: variables("CONFIG_TYPE=FILE CONFIG_GRPC_XDS_SERVER_URL=eg:18001")}).xds(); got.Address != "" {
		t.Errorf("with files: got %+v, want none", got)
	}
}

// A variable that would be ignored, although it makes something safe or sets where counts are, is an error.
func TestOriginalErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                        "REDIS_URL: is missing",
		"REDIS_URL=/run/redis.sock":               "REDIS_SOCKET_TYPE: Unix sockets are not supported",
		"REDIS_URL=r:1 REDIS_TLS_CACERT=f":        "REDIS_TLS_CACERT: is not supported; name the file in SSL_CERT_FILE",
		"REDIS_URL=r:1 REDIS_PERSECOND=true":      "REDIS_PERSECOND: is not supported",
		"REDIS_URL=r:1 REDIS_TYPE=ring":           `REDIS_TYPE: must be SINGLE, CLUSTER or SENTINEL, not "RING"`,
		"REDIS_URL=r:1 BACKEND_TYPE=dynamo":       `BACKEND_TYPE: must be redis, not "dynamo"; or set SLIDEGATE_STORE`,
		"REDIS_URL=r:1 CONFIG_TYPE=grpc":          `CONFIG_TYPE: must be FILE or GRPC_XDS_SOTW, not "grpc"`,
		"REDIS_URL=r:1 USE_PROMETHEUS=yes":        `USE_PROMETHEUS: must be true or false, not "yes"`,
		"REDIS_URL=r:1 GRPC_SERVER_USE_TLS=true":  "GRPC_SERVER_TLS_CERT: is missing",
		"REDIS_URL=r:1 GRPC_CLIENT_TLS_SAN=a.com": "GRPC_CLIENT_TLS_SAN: names of clients are not checked",
	} {
		for _, name := range []string{"REDIS_URL", "REDIS_TLS_CACERT", "REDIS_PERSECOND", "REDIS_TYPE", "USE_PROMETHEUS", "GRPC_CLIENT_TLS_SAN", "GRPC_SERVER_USE_TLS",
			"BACKEND_TYPE", "CONFIG_TYPE", "CACHE_KEY_PREFIX"} {
			t.Setenv(name, variables(text)(name))
		}
		var out, errs bytes.Buffer
		status := run(t.Context(), &console{out: &out, err: &errs, original: true}, nil)
		if status != exitFailure || !strings.Contains(errs.String(), "slidegate: "+want) {
			t.Errorf("%s: got status %d, %s, want %s", text, status, errs.String(), want)
		}
	}
}
