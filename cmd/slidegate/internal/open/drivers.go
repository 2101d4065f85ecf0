package open

import (
	"errors"
	"strings"
	"time"

	"github.com/slidegate/slidegate/internal/connect"
	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/internal/options"
	"github.com/slidegate/slidegate/internal/storeurl"
	_ "github.com/slidegate/slidegate/kvstore/natskv"
	_ "github.com/slidegate/slidegate/pgstore"
	_ "github.com/slidegate/slidegate/redisstore"
)

// schemes are the schemes in the error about an unknown one, in the order of the documentation.
var schemes = []string{"memory", "redis", "rediss", "redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel", "postgres", "nats", "tls"}

// embedded is the scheme of a NATS server in this process, which the build tag no_nats_server leaves out.
const embedded = "nats:embedded"

// driverOf returns the driver of a URL. The error about an unknown scheme does not contain it: if the URL is invalid, that may be a
// secret.
func driverOf(url string) (*connect.Driver, error) {
	scheme, rest, _ := strings.Cut(url, ":")
	key := strings.ToLower(scheme)
	if (key == "nats" || key == "tls") && !strings.HasPrefix(rest, "//") {
		key = embedded
	}
	open := connect.Registered(key)
	switch {
	case open == nil && key == embedded:
		return nil, invalid("URL", storeurl.Errorf("this build does not include a NATS server; write nats://HOST:PORT for a remote one, or build without the tag no_nats_server"))
	case open == nil && strings.HasPrefix(rest, "//"): // otherwise it may be a secret, and is not shown
		return nil, invalid("URL", errtext.Unknown(scheme, "a kind of store", schemes))
	case open == nil:
		return nil, invalid("URL", storeurl.Errorf("the URL begins with an unknown store%s (%s)",
			errtext.DidYouMean(scheme, schemes), errtext.OneOf(schemes)))
	}
	driver, err := open(url)
	var wrong *storeurl.Error
	if errors.As(err, &wrong) { // without the name of the store's package
		err = invalid("URL", wrong)
	}
	return driver, err
}

// withTimeout returns the URL of NATS with a timeout that is not shorter than that of decisions, unless it has one of its
// own. The default is a second.
func withTimeout(url string, timeout time.Duration) string {
	scheme, _, _ := strings.Cut(strings.ToLower(url), ":")
	_, query, parameters := strings.Cut(url, "?")
	switch {
	case timeout <= time.Second, scheme != "nats" && scheme != "tls", strings.Contains("&"+query, "&timeout="):
		return url
	case parameters:
		return url + "&timeout=" + timeout.String()
	}
	return url + "?timeout=" + timeout.String()
}

// invalid returns an error about an argument or an option of Open.
func invalid(option string, err error) error {
	return &options.Error{Package: "open", Option: option, Err: err}
}
