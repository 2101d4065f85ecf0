package open

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/internal/connect"
)

// TestDriversRejectOtherSchemes: the driver of one store does not open the URL of another.
func TestDriversRejectOtherSchemes(t *testing.T) {
	for scheme, others := range map[string][]string{
		"redis":    {"http://h", "redis+x://h", "postgres://h"},
		"postgres": {"http://h", "redis://h"},
		"nats":     {"http://h", "redis://h"},
		embedded:   {"http://h", "redis:embedded?dir=d"},
	} {
		for _, url := range others {
			if _, err := connect.Registered(scheme)(url); err == nil {
				t.Errorf("the driver of %s: got no error for %s", scheme, url)
			}
		}
	}
}

// TestAcceptsDocumentedURLs: every documented parameter of every scheme is accepted.
func TestAcceptsDocumentedURLs(t *testing.T) {
	for scheme, urls := range map[string][]string{
		"redis": {
			"redis://u:p@h:1/2?prefix=x&dial_timeout=1s&write_timeout=1s&client_name=x&protocol=2", "rediss://h?server_name=x&skip_verify=true",
			"redis+cluster://a,b:1", "rediss+cluster://a", "redis+sentinel://a,b/mine/1?sentinel_user=u&sentinel_password=p", "rediss+sentinel://a/mine",
		},
		"postgres": {
			"postgres://u:p@h/db?slidegate_schema=s&slidegate_prefix=p_&slidegate_unlogged=true&slidegate_migrate=false",
			"postgresql://h/db?slidegate_synchronous_commit=off&pool_max_conns=3",
		},
		"nats":   {"nats://a,b:1?bucket=b&replicas=3&storage=memory&prefix=x&timeout=1s", "tls://h?skip_verify=true&ca=f&cert=f&key=f", "nats://TOKEN@h?credentials=f"},
		embedded: {"nats:embedded?dir=d&name=a&route=127.0.0.1:1&cluster=127.0.0.1:1,127.0.0.1:2,127.0.0.1:3&secret=a-secret-of-many-letters&sync=always&bucket=b&storage=file&prefix=x&timeout=1s&replicas=3"},
	} {
		for _, url := range urls {
			if _, err := connect.Registered(scheme)(url); err != nil {
				t.Errorf("the driver of %s rejects %s: %v", scheme, url, err)
			}
		}
	}
	for _, url := range []string{"memory:", "memory:?max_bytes=256MiB"} {
		if _, err := MemoryOptions(url); err != nil {
			t.Errorf("%s is rejected: %v", url, err)
		}
	}
}

// FuzzURL parses URLs that contain a password: whatever they look like, no error contains it.
func FuzzURL(f *testing.F) {
	for _, rest := range []string{"@h", "@h:1/2?prefix=x", "@a,b:5/mine", "/@h", "?@h", "#@h", ":1@h", "%zz@h", "@h?dial_timeout=", "@h/?slidegate_x", ""} {
		f.Add("redis://u:", rest)
		f.Add("rediss+sentinel://", rest)
		f.Add("postgres://u:", rest)
		f.Add("memory:", rest)
		f.Add("nats://", rest)
		f.Add("tls://u:", rest)
		f.Add("nats:embedded?dir=d&route=10.0.0.1:1&cluster=a:1&secret=", rest)
	}
	const password = "correcthorse"
	f.Fuzz(func(t *testing.T, before, after string) {
		text := before + password + after
		_, chosen := driverOf(text)
		errs := []error{chosen, (&Opened{}).openMemory(text, &Options{})}
		for _, scheme := range []string{"redis", "postgres", "nats", embedded} {
			_, err := connect.Registered(scheme)(text)
			errs = append(errs, err)
		}
		for i, err := range errs {
			if err != nil && (strings.Contains(err.Error(), password) || i == 0 && !strings.HasPrefix(err.Error(), "open: URL: ")) {
				if slices.ContainsFunc([]string{"dial_timeout", "write_timeout", "protocol", "skip_verify", "max_bytes", "prefix", "slidegate",
					"replicas", "storage", "sync", "timeout", "clock"}, func(name string) bool {
					return strings.Contains(before, name)
				}) {
					continue // errors may quote the value of a named parameter, which is not a password
				}
				t.Errorf("%q: got the error %v, want one of stores without the password", text, err)
			}
		}
	})
}

// TestTimeoutOfEngines: a timeout of decisions that is longer than the default of a key-value engine is that of the engine too.
func TestTimeoutOfEngines(t *testing.T) {
	for _, test := range []struct {
		url     string
		timeout time.Duration
		want    string
	}{
		{"nats://h", time.Second, "nats://h"},
		{"nats://h", 5 * time.Second, "nats://h?timeout=5s"},
		{"nats:embedded?dir=d", 5 * time.Second, "nats:embedded?dir=d&timeout=5s"},
		{"nats://h?timeout=2s", 5 * time.Second, "nats://h?timeout=2s"},
		{"redis://h", 5 * time.Second, "redis://h"},
	} {
		got := withTimeout(test.url, test.timeout)
		if got != test.want {
			t.Errorf("%s with %v: got %s, want %s", test.url, test.timeout, got, test.want)
		}
		if driver, err := driverOf(got); err != nil {
			t.Errorf("%s: %v", got, err)
		} else if driver.Close != nil {
			driver.Close()
		}
	}
}

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int64{
		"1": 1, "268435456": 256 << 20, "512B": 512, "256KiB": 256 << 10, "1MiB": 1 << 20, "3GiB": 3 << 30, "1TiB": 1 << 40,
		"9223372036854775807": math.MaxInt64, "8388607TiB": 8388607 << 40,
	} {
		if got, err := parseBytes(text); err != nil || got != want {
			t.Errorf("%s: got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "0", "-1", "+1", "1.5GiB", "MiB", "1 MiB", "1MB", "1M", "1mib", "1iB", "1MiBB", "0KiB", "8388608TiB", "9223372036854775808", "99999999999999999999", "0x10",
	} {
		if got, err := parseBytes(text); err == nil || !strings.Contains(err.Error(), "256MiB") {
			t.Errorf("%q: got %d, %v, want an error that shows how to write it", text, got, err)
		}
	}
}
