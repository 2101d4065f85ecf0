package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/slidegate/slidegate/config"
)

// originalName is the name of envoyproxy/ratelimit's program. Under this name the program serves as the original would, so that it can
// take its place where only the image can be chosen, as in Envoy Gateway.
const originalName = "ratelimit"

// original reads the environment variables of envoyproxy/ratelimit, with its defaults.
type original struct {
	get  func(variable string) string
	errs []error
}

// arguments returns the command line of serve that does what the original does. Variables of Slidegate, and the flags in given, take
// precedence.
func (o *original) arguments(given []string) []string {
	args := []string{"serve"}
	set := func(flag, value string) {
		if value != "" && o.get(variableName(flag)) == "" {
			args = append(args, "--"+flag+"="+value)
		}
	}
	set("http", o.address("HOST", "PORT", "8080"))
	set("grpc", o.grpc())
	set("resp", "off")
	set("metrics", o.metrics())
	set("drain-delay", "5s") // the original has none, and drops requests when it is replaced
	chosen := func(flag string) bool {
		return o.get(variableName(flag)) != "" || slices.ContainsFunc(given, func(arg string) bool { return arg == "--"+flag || strings.HasPrefix(arg, "--"+flag+"=") })
	}
	if !chosen("config") && !chosen("store") {
		set("store", o.store())
	}
	switch kind := o.get("CONFIG_TYPE"); kind {
	case "", "FILE":
		root := cmp.Or(o.get("RUNTIME_ROOT"), "/srv/runtime_data/current")
		set("envoy", filepath.Join(root, o.get("RUNTIME_SUBDIRECTORY"), cmp.Or(o.get("RUNTIME_APPDIRECTORY"), "config")))
	case "GRPC_XDS_SOTW": // see xds
	default:
		o.errs = append(o.errs, fmt.Errorf("CONFIG_TYPE: must be FILE or GRPC_XDS_SOTW, not %q", kind))
	}
	if o.is("GRPC_SERVER_USE_TLS") {
		if o.get("GRPC_SERVER_TLS_CERT") == "" {
			o.errs = append(o.errs, errors.New("GRPC_SERVER_TLS_CERT: is missing, and GRPC_SERVER_USE_TLS is true; name the certificate"))
		}
		set("tls-cert", o.get("GRPC_SERVER_TLS_CERT"))
		set("tls-key", o.get("GRPC_SERVER_TLS_KEY"))
		set("tls-client-ca", o.get("GRPC_CLIENT_TLS_CACERT"))
	}
	if o.is("LIMIT_RESPONSE_HEADERS_ENABLED") {
		set("envoy-headers", "response")
	} else {
		set("envoy-headers", "none")
	}
	for variable, flag := range map[string]string{"SHADOW_MODE": "envoy-shadow", "QUOTA_MODE": "envoy-quota", "TRACING_ENABLED": "otlp"} {
		if o.is(variable) {
			set(flag, "true")
		}
	}
	set("log-level", o.level())
	set("log-format", strings.ToLower(o.get("LOG_FORMAT")))
	o.reject("GRPC_CLIENT_TLS_SAN", "names of clients are not checked; use a CA of its own for them")
	return append(args, given...)
}

// xds returns the management server.
func (o *original) xds() (server config.XDS) {
	if o.get("CONFIG_TYPE") != "GRPC_XDS_SOTW" {
		return server
	}
	server = config.XDS{
		Address: cmp.Or(o.get("CONFIG_GRPC_XDS_SERVER_URL"), "localhost:18000"), Node: o.get("CONFIG_GRPC_XDS_NODE_ID"),
		Metadata: o.pairs("CONFIG_GRPC_XDS_NODE_METADATA"), Headers: o.pairs("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS"),
	}
	if o.is("CONFIG_GRPC_XDS_SERVER_USE_TLS") {
		server.TLS, server.CA, server.ServerName = true, o.get("CONFIG_GRPC_XDS_SERVER_TLS_CACERT"), o.get("CONFIG_GRPC_XDS_SERVER_TLS_SAN")
		server.Cert, server.Key = o.get("CONFIG_GRPC_XDS_CLIENT_TLS_CERT"), o.get("CONFIG_GRPC_XDS_CLIENT_TLS_KEY")
	}
	return server
}

// store returns the URL of the store.
func (o *original) store() string {
	if kind := strings.ToLower(o.get("BACKEND_TYPE")); kind != "" && kind != "redis" {
		o.errs = append(o.errs, fmt.Errorf("BACKEND_TYPE: must be redis, not %q; or set SLIDEGATE_STORE", kind))
		return ""
	}
	address, socket := o.get("REDIS_URL"), o.get("REDIS_SOCKET_TYPE")
	if address == "" {
		o.errs = append(o.errs, errors.New("REDIS_URL: is missing; write HOST:PORT, or set SLIDEGATE_STORE"))
		return ""
	}
	for _, variable := range []string{"REDIS_TLS_CLIENT_CERT", "REDIS_TLS_CLIENT_KEY", "REDIS_PERSECOND"} {
		o.reject(variable, "is not supported; unset it")
	}
	o.reject("REDIS_TLS_CACERT", "is not supported; name the file in SSL_CERT_FILE")
	if socket == "unix" || strings.HasPrefix(address, "/") {
		o.errs = append(o.errs, errors.New("REDIS_SOCKET_TYPE: Unix sockets are not supported; write tcp, and HOST:PORT in REDIS_URL"))
		return ""
	}
	scheme := "redis"
	if o.is("REDIS_TLS") || socket == "tls" {
		scheme = "rediss"
	}
	if given, rest, isURL := strings.Cut(address, "://"); isURL {
		if given == "rediss" {
			scheme = given
		}
		address = rest
	}
	parameters := url.Values{}
	if prefix := o.get("CACHE_KEY_PREFIX"); prefix != "" {
		parameters.Set("prefix", prefix)
	}
	if o.is("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION") && scheme == "rediss" { // the original ignores it without TLS
		parameters.Set("skip_verify", "true")
	}
	switch kind := strings.ToUpper(o.get("REDIS_TYPE")); kind {
	case "", "SINGLE":
	case "CLUSTER":
		scheme += "+cluster"
	case "SENTINEL":
		master, sentinels, _ := strings.Cut(address, ",")
		scheme, address = scheme+"+sentinel", sentinels+"/"+master
		if user, password := credentials(o.get("REDIS_SENTINEL_AUTH")); password != "" {
			parameters.Set("sentinel_password", password)
			if user != "" {
				parameters.Set("sentinel_user", user)
			}
		}
	default:
		o.errs = append(o.errs, fmt.Errorf("REDIS_TYPE: must be SINGLE, CLUSTER or SENTINEL, not %q", kind))
	}
	if user, password := credentials(o.get("REDIS_AUTH")); password != "" {
		address = url.UserPassword(user, password).String() + "@" + address
	}
	if len(parameters) > 0 {
		address += "?" + parameters.Encode()
	}
	return scheme + "://" + address
}

// credentials splits USER:PASSWORD, or a password alone.
func credentials(text string) (user, password string) {
	if user, password, found := strings.Cut(text, ":"); found {
		return user, password
	}
	return "", text
}

func (o *original) grpc() string {
	if path := o.get("GRPC_UDS"); path != "" {
		return "unix:" + path
	}
	return o.address("GRPC_HOST", "GRPC_PORT", "8081")
}

// metrics returns the address for Prometheus, or "".
func (o *original) metrics() string {
	if !o.is("USE_PROMETHEUS") {
		return ""
	}
	address := cmp.Or(o.get("PROMETHEUS_ADDR"), ":9090")
	if strings.HasPrefix(address, ":") {
		address = "0.0.0.0" + address
	}
	return address
}

// address returns the address that two variables set.
func (o *original) address(host, port, defaultPort string) string {
	return net.JoinHostPort(cmp.Or(o.get(host), "0.0.0.0"), cmp.Or(o.get(port), defaultPort))
}

// level returns the log level, of which the original has more.
func (o *original) level() string {
	switch level := strings.ToLower(o.get("LOG_LEVEL")); level {
	case "", "warning":
		return "warn"
	case "panic", "fatal":
		return "error"
	case "trace":
		return "debug"
	default:
		return level
	}
}

// pairs reads a variable of the form name:value,name=value.
func (o *original) pairs(variable string) map[string]string {
	pairs := map[string]string{}
	for pair := range strings.SplitSeq(o.get(variable), ",") {
		if at := strings.IndexAny(pair, ":="); at > 0 {
			pairs[strings.TrimSpace(pair[:at])] = strings.TrimSpace(pair[at+1:])
		}
	}
	return pairs
}

// is reports whether a variable is true.
func (o *original) is(variable string) bool {
	text := o.get(variable)
	if text == "" {
		return false
	}
	value, err := strconv.ParseBool(text)
	if err != nil {
		o.errs = append(o.errs, fmt.Errorf("%s: must be true or false, not %q", variable, text))
	}
	return value
}

// reject adds an error if a variable that would be ignored is set, and not to false.
func (o *original) reject(variable, why string) {
	if value := o.get(variable); !slices.Contains([]string{"", "0", "false"}, value) {
		o.errs = append(o.errs, fmt.Errorf("%s: %s", variable, why))
	}
}

// takePlace makes the command serve as the original would, and returns its command line.
func (s *serveCommand) takePlace(given []string) ([]string, error) {
	o := &original{get: os.Getenv}
	args := o.arguments(given)
	s.XDS, s.PlainHTTP = o.xds(), true
	s.healthyAtOnce = !o.is("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED")
	return args, errors.Join(o.errs...)
}
