package natskv

import (
	"crypto/tls"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/slidegate/slidegate/internal/storeurl"
	"github.com/slidegate/slidegate/kvstore"
)

// target is the parsed URL of a JetStream bucket.
type target struct {
	servers []string // without users and passwords
	options []nats.Option
	query   url.Values
}

const defaultPort = "4222"

// bucketParameters are the parameters of the bucket, and of the store over it.
var bucketParameters = []string{"bucket", "replicas", "storage", "prefix", "timeout"}

// parseURL parses the URL of one NATS server, or of several of one cluster.
func parseURL(text string) (*target, error) {
	a, err := storeurl.Parse(text, defaultPort, append(slices.Clone(bucketParameters), "credentials", "ca", "cert", "key", "skip_verify")...)
	if err != nil {
		return nil, err
	}
	if len(a.Path) > 0 && (len(a.Path) > 1 || a.Path[0] != "") {
		return nil, storeurl.Errorf("a nats URL must have only parameters after its hosts; write bucket=NAME after a ? to name the bucket, " +
			"and percent-encode the / in a password")
	}
	if a.Scheme != "nats" && a.Scheme != "tls" {
		return nil, storeurl.Errorf("the URL must begin with nats://, or with tls:// for TLS")
	}
	t := &target{query: a.Query}
	for _, host := range a.Hosts {
		t.servers = append(t.servers, a.Scheme+"://"+host)
	}
	switch {
	case a.User != "" && a.Password != "":
		t.options = append(t.options, nats.UserInfo(a.User, a.Password))
	case a.User != "":
		t.options = append(t.options, nats.Token(a.User)) // as NATS itself interprets such a URL
	case a.Password != "":
		return nil, storeurl.Errorf("the nats URL has a password without a user; write nats://USER:PASSWORD@HOST, or nats://TOKEN@HOST for a token")
	}
	if file := a.Query.Get("credentials"); file != "" {
		t.options = append(t.options, nats.UserCredentials(file))
	}
	return t, t.readTLS(&a)
}

// readTLS parses the TLS parameters. As with every client of NATS, a server that requires TLS gets it under nats:// too.
func (t *target) readTLS(a *storeurl.Address) error {
	ca, cert, key, skip := a.Query.Get("ca"), a.Query.Get("cert"), a.Query.Get("key"), a.Query.Get("skip_verify")
	if a.Scheme != "tls" && (ca != "" || cert != "" || key != "" || skip != "") {
		return storeurl.Errorf("ca, cert, key and skip_verify require TLS; write tls:// instead of nats://")
	}
	if (cert == "") != (key == "") {
		return storeurl.Errorf("cert and key go together; name the files of both")
	}
	if skip != "" {
		yes, err := strconv.ParseBool(skip)
		if err != nil {
			return storeurl.Errorf("skip_verify: must be true or false, not %q", skip)
		}
		t.options = append(t.options, nats.Secure(&tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: yes}))
	}
	if ca != "" {
		t.options = append(t.options, nats.RootCAs(ca))
	}
	if cert != "" {
		t.options = append(t.options, nats.ClientCert(cert, key))
	}
	return nil
}

// readBucket parses the parameters of the bucket, and of the store over it.
func readBucket(query url.Values) (bucket Options, st kvstore.Options, err error) {
	bucket.Bucket, st.Prefix = query.Get("bucket"), query.Get("prefix")
	if strings.ContainsFunc(bucket.Bucket, notInBucket) {
		return bucket, st, storeurl.Errorf("bucket: use letters, digits, - and _")
	}
	if text := query.Get("replicas"); text != "" {
		if bucket.Replicas, err = strconv.Atoi(text); err != nil || bucket.Replicas < 1 || bucket.Replicas > 5 {
			return bucket, st, storeurl.Errorf("replicas: must be 1 to 5, not %q; 3 survive the loss of one server", text)
		}
	}
	switch storage := query.Get("storage"); storage {
	case "", "file":
	case "memory":
		bucket.Memory = true
	default:
		return bucket, st, storeurl.Errorf("storage: must be file or memory, not %q", storage)
	}
	if text := query.Get("timeout"); text != "" {
		if st.Timeout, err = time.ParseDuration(text); err != nil || st.Timeout <= 0 {
			return bucket, st, storeurl.Errorf("timeout: must be a duration such as 1s, not %q", text)
		}
	}
	return bucket, st, nil
}
