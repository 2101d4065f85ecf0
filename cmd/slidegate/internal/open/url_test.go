package open_test

import (
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/open"
	"github.com/slidegate/slidegate/memstore"
)

func TestBadURLs(t *testing.T) {
	for url, want := range map[string]string{
		"redsi://hunter2@h":                                        `did you mean "redis"`,
		"hunter2":                                                  "unknown store",
		"memory:hunter2":                                           "max_bytes",
		"memory:?max_keys=1000000":                                 "max_bytes",
		"memory:?max_bytes=0":                                      "max_bytes: must be",
		"memory:?max_bytes=256MB":                                  "max_bytes: must be",
		"memory:?max_bytes=1MiB&max_keys=5":                        "max_bytes",
		"memory:?max_bytes=5":                                      "MaxBytes: must be",
		"memory:?maxbytes=5":                                       `did you mean "max_bytes"`,
		"redis:hunter2":                                            "beginning",
		"redis://u:hunter2@h:port/0":                               "host",
		"redis://u:%zzhunter2@h":                                   "password",
		"redis://u:1/hunter2@h":                                    "percent-encode",
		"redis://:hunter2@h/0/1":                                   "database number",
		"redis://:hunter2@h/-1":                                    "database number",
		"redis://:hunter2@h?dial_timeout=soon":                     "dial_timeout",
		"redis://:hunter2@h?write_timeout=0s":                      "write_timeout",
		"redis://:hunter2@h?protcol=2":                             `did you mean "protocol"`,
		"redis://:hunter2@h?protocol=4":                            "protocol: must be 2 or 3",
		"redis://:hunter2@h?prefix=a&prefix=b":                     "duplicate parameter prefix",
		"redis://:hunter2@h?prefix={":                              "prefix",
		"redis://:hunter2@h1,h2":                                   "redis+cluster://",
		"redis://:hunter2@h?skip_verify=true":                      "rediss://",
		"rediss://:hunter2@h?skip_verify=maybe":                    "skip_verify",
		"redis+cluster://:hunter2@h1,h2/3":                         "only database 0",
		"redis+sentinel://:hunter2@h1,h2":                          "name of the master",
		"redis://:x@h?sentinel_password=hunter2":                   "only valid with redis+sentinel://",
		"redis://:x@h?%zzhunter2":                                  "invalid parameters",
		"redis://:x@h?passwd=hunter2":                              `unknown parameter "passwd"`,
		"redis://h?hunter2@x":                                      "unknown parameter (want",
		"postgres://u:hunter2@h:port/db":                           "invalid postgres URL",
		"postgres://u:1/hunter2@h/db?sslmode=no":                   "invalid postgres URL",
		"postgres://u:hunter2@h/db?slidegate_shema=x":              `did you mean "slidegate_schema"`,
		"postgres://u:hunter2@h/db?slidegate_unlogged=x":           "slidegate_unlogged: must be true or false",
		"postgres://u:hunter2@h/db?slidegate_schema=%22":           "schema",
		"nats://u:hunter2@h:port":                                  "host",
		"nats://:hunter2@h":                                        "without a user",
		"nats://u:hunter2@h/bucket":                                "bucket=NAME",
		"nats://u:hunter2@h?bucket=a.b":                            "bucket: use letters",
		"nats://u:hunter2@h?replica=3":                             `did you mean "replicas"`,
		"nats://u:hunter2@h?replicas=9":                            "replicas: must be 1 to 5",
		"nats://u:hunter2@h?storage=disk":                          "storage: must be file or memory",
		"nats://u:hunter2@h?prefix=a_b":                            "letters, digits and -",
		"nats://hunter2@h?ca=/x":                                   "tls://",
		"tls://hunter2@h?cert=/x":                                  "cert and key go together",
		"tls://hunter2@h?skip_verify=maybe":                        "skip_verify",
		"nats:hunter2":                                             "nats:embedded?dir=FOLDER",
		"nats:embedded":                                            "dir: is missing",
		"nats:embedded?secret=hunter2":                             "dir: is missing",
		"nats:embedded?dir=d&secret=hunter2":                       "secret: requires a cluster",
		"nats:embedded?dir=d&route=h:1&secret=hunter2":             "cluster: is missing",
		"nats:embedded?dir=d&cluster=h:1":                          "route: is missing",
		"nats:embedded?dir=d&route=h:1&cluster=i:1":                "secret: is missing",
		"nats:embedded?dir=d&route=h:1&cluster=h:1&secret=hunter2": "contains only this process",
		"nats:embedded?dir=d&route=h&cluster=h:1&secret=hunter2":   "HOST:PORT",
		"nats:embedded?dir=d&route=h:1&cluster=h:1,i:1&secret=hunter2&replicas=3": "the cluster has 2",
		"nats:embedded?dir=d&sync=never":                                          "sync: must be",
		"nats:embedded?directory=d":                                               `unknown parameter "directory"`,
	} {
		o, err := open.Open(ctx, url, open.Options{})
		if err == nil {
			o.Close()
			t.Errorf("%s: got no error", url)
			continue
		}
		if !strings.HasPrefix(err.Error(), "open: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", url, err, want)
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error contains the password: %v", url, err)
		}
	}
}

func TestMemory(t *testing.T) {
	for _, url := range []string{"", "memory:", "memory://", "memory:?max_bytes=1MiB"} {
		o := openStore(t, url, open.Options{})
		if o.Memory == nil || o.Store != o.Memory {
			t.Errorf("%q: got %+v, want the store in memory without layers", url, o)
		}
		if err := o.Health(); err != nil {
			t.Errorf("%q: Health: got %v, want nil", url, err)
		}
	}
	kept, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if o := openStore(t, "memory:", open.Options{Memory: kept}); o.Memory != kept {
		t.Error("the restored store is not used")
	}
}
