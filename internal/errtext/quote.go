package errtext

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Quote quotes user input, masked by Mask, and truncates long input.
func Quote(text string) string {
	const most = 60
	text = Mask(text)
	if len(text) <= most {
		return strconv.Quote(text)
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return strconv.Quote(text[:cut]) + "..."
}

// Mask masks the passwords in text that is a URL by mistake; any other text is returned unchanged.
func Mask(text string) string {
	if strings.Contains(text, "://") || strings.Contains(text, "nats:embedded?") {
		return Redact(text)
	}
	return text
}

// masked stands for a password.
const masked = "***"

// Redact returns a URL with its passwords masked, for display: the password before the host, and the values of all parameters that
// are not known to be harmless. In a malformed URL, it masks too much rather than too little.
func Redact(address string) string {
	start := strings.Index(address, "://") + len("://")
	if at := strings.LastIndexByte(address, '@'); start >= len("://") && at >= start {
		if colon := passwordAt(address[start:at]); colon >= 0 {
			address = address[:start+colon+1] + masked + address[at:]
		} else if scheme := address[:start]; strings.HasSuffix(scheme, "nats://") || strings.HasSuffix(scheme, "tls://") {
			address = scheme + masked + address[at:] // a user without a password is a token
		}
	}
	before, parameters, found := strings.Cut(address, "?")
	if !found {
		return address
	}
	var b strings.Builder
	b.WriteString(before)
	for separator := "?"; separator != ""; {
		b.WriteString(separator)
		parameter, rest := parameters, ""
		separator = ""
		if end := strings.IndexAny(parameters, "&;"); end >= 0 {
			parameter, separator, rest = parameters[:end], parameters[end:end+1], parameters[end+1:]
		}
		b.WriteString(redactParameter(parameter))
		parameters = rest
	}
	return b.String()
}

// passwordAt returns the index of the colon before a password, or -1 if there is none. The colon of ${file:/path} does not
// count.
func passwordAt(user string) int {
	for i := 0; i < len(user); i++ {
		if strings.HasPrefix(user[i:], "${file:/") {
			if end := strings.IndexByte(user[i:], '}'); end > 0 {
				i += end
				continue
			}
		}
		if user[i] == ':' {
			return i
		}
	}
	return -1
}

// shown are the parameters whose values are no secrets: those of the stores' URLs, and what PostgreSQL and its pool know. The value of
// any other is masked, since it may be that of a misspelled secret.
var shown = []string{
	"prefix", "dial_timeout", "write_timeout", "client_name", "protocol", "server_name", "skip_verify", "sentinel_user", // Redis
	"max_bytes", "timeout", "bucket", "replicas", "storage", "credentials", "ca", "cert", "key", "dir", "name", "route", "cluster", "sync", // memory, NATS
	"slidegate_schema", "slidegate_prefix", "slidegate_unlogged", "slidegate_synchronous_commit", "slidegate_migrate",
	"host", "port", "user", "dbname", "database", "application_name", "client_encoding", "connect_timeout", "default_query_exec_mode",
	"description_cache_capacity", "options", "passfile", "search_path", "service", "servicefile", "sslcert", "sslkey", "sslmode", "sslnegotiation",
	"sslrootcert", "sslsni", "statement_cache_capacity", "statement_timeout", "target_session_attrs", "timezone",
	"pool_health_check_period", "pool_max_conn_idle_time", "pool_max_conn_lifetime", "pool_max_conn_lifetime_jitter", "pool_max_conns",
	"pool_min_conns", "pool_min_idle_conns",
}

// redactParameter masks the value of a parameter unless it is known to be no secret, however its name is encoded.
func redactParameter(parameter string) string {
	name, _, hasValue := strings.Cut(parameter, "=")
	plain, err := url.QueryUnescape(name)
	if err != nil {
		plain = name
	}
	if !hasValue || slices.Contains(shown, strings.ToLower(plain)) {
		return parameter
	}
	return name + "=" + masked
}
