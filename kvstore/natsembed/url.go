package natsembed

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/slidegate/slidegate/internal/storeurl"
)

const urlForm = "nats:embedded?dir=FOLDER, and for one of a cluster &route=HOST:PORT&cluster=HOST:PORT,HOST:PORT,HOST:PORT&secret=TEXT"

// maxReplicas is the default number of processes in a cluster that keep the bucket.
const maxReplicas = 3

// parseURL parses the URL of a server in this process. The values that it returns are those of the bucket.
func parseURL(text string) (o Options, values url.Values, err error) {
	scheme, rest, _ := strings.Cut(text, ":")
	kind, query, _ := strings.Cut(rest, "?")
	if !strings.EqualFold(scheme, "nats") || kind != "embedded" {
		return o, nil, storeurl.Errorf("write nats://HOST:PORT for a remote server, or %s", urlForm)
	}
	values, err = storeurl.ParseQuery(query, "bucket", "replicas", "storage", "prefix", "timeout", "dir", "route", "cluster", "secret", "name", "sync")
	if err != nil {
		return o, nil, err
	}
	o = Options{Dir: values.Get("dir"), Name: values.Get("name"), Route: values.Get("route"), Secret: values.Get("secret")}
	if list := values.Get("cluster"); list != "" {
		o.Cluster = strings.Split(list, ",")
	}
	switch sync := values.Get("sync"); sync {
	case "", "later":
	case "always":
		o.SyncAlways = true
	default:
		return o, nil, storeurl.Errorf("sync: must be always or later, not %q", sync)
	}
	if err := o.check(); err != nil {
		return o, nil, storeurl.Errorf("%w", err)
	}
	size := o.size()
	if n, _ := strconv.Atoi(values.Get("replicas")); n > size && n <= 5 {
		return o, nil, storeurl.Errorf("replicas: is %d, but the cluster has %d processes; list all of them in cluster=", n, size)
	}
	if !values.Has("replicas") {
		values.Set("replicas", strconv.Itoa(min(size, maxReplicas)))
	}
	return o, values, nil
}
