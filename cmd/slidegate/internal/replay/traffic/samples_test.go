package traffic

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/internal/fields"
)

// read reads all requests of a log and returns them as lines "time key cost".
func read(t *testing.T, r Lines) []string {
	t.Helper()
	var got []string
	var line Line
	for {
		err := r.Next(&line)
		if err == io.EOF {
			return got
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %s %d", clockText(int64(line.At)), line.Key, line.Cost))
	}
}

// clockText returns the time of day with microseconds; the samples differ in nothing else.
func clockText(at int64) string { return time.UnixMicro(at).UTC().Format("15:04:05.999999") }

func template(t testing.TB, text string) fields.Template {
	t.Helper()
	parsed, err := fields.ParseTemplate(text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func costOf(t testing.TB, text string) fields.Cost {
	t.Helper()
	parsed, err := fields.ParseCost(text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func same(t *testing.T, got, want []string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// Each sample is read with several keys; the format is always detected.
var samples = []struct {
	file   string
	title  string
	key    string
	cost   string
	fields map[string]string
	want   []string
	bad    int64
	gone   int64 // how many requests lack a field of the key
}{
	{file: "combined.log", title: "combined log", want: []string{
		"06:48:34 203.0.113.7 1",
		"06:48:34 203.0.113.7 1",
		"06:48:35 2001:db8:1:2::/64 1",
		"06:48:36 198.51.100.23 1",
		"06:48:37 198.51.100.23 1",
		"06:48:38 client.example.net 1",
		"06:48:39 10.0.0.9 1",
	}},
	{file: "combined.log", title: "combined log", key: "{user}|{method}|{path}|{query}|{status}", cost: "bytes", gone: 7, want: []string{
		"06:48:34 address:203.0.113.7|GET|/api/v1/items|page=2|200 1532",
		"06:48:34 frank|POST|/login|-|401 89",
		`06:48:35 address:2001:db8:1:2::/64|GET|/a"b"c|-|404 0`,
		"06:48:36 address:198.51.100.23|-|-|-|400 226",
		"06:48:37 address:198.51.100.23|-|-|-|408 0",
		"06:48:38 John Doe|HEAD|/health|-|304 0",
		"06:48:39 address:10.0.0.9|GET|/dashboard|-|200 415",
	}},
	{file: "combined.log", title: "combined log", key: "{header:referer}|{header:User-Agent}", cost: "7", gone: 6, want: []string{
		"06:48:34 https://shop.example.com/|Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0 7",
		"06:48:34 address:203.0.113.7|curl/8.5.0 7",
		`06:48:35 address:2001:db8:1:2::/64|agent "quoted" \ end 7`,
		"06:48:36 address:198.51.100.23|address:198.51.100.23 7",
		"06:48:37 address:198.51.100.23|address:198.51.100.23 7",
		"06:48:38 address:client.example.net|probe/1.0 7",
		"06:48:39 address:10.0.0.9|address:10.0.0.9 7",
	}},
	{file: "common.log", title: "common log", gone: 1, want: []string{
		"20:55:36 127.0.0.1 1",
		"20:55:37 192.0.2.1 1",
		"20:55:38 ::/64 1",
		"20:55:39 - 1",
	}},
	{file: "caddy.log", title: "Caddy log", bad: 1, want: []string{
		"06:48:34.524102 203.0.113.7 1",
		"06:48:35.25 2001:db8::/64 1",
		"06:48:36.0015 198.51.100.4 1",
	}},
	{
		file: "caddy.log", title: "Caddy log", bad: 1, gone: 3, cost: "bytes",
		key: "{user}|{method}|{path}|{query}|{host}|{status}|{header:x-api-key}|{field:request.tls.version}", want: []string{
			"06:48:34.524102 address:203.0.113.7|GET|/api/items|page=2|shop.example.com|200|k-1|772 10900",
			"06:48:35.25 alice|POST|/login|-|shop.example.com|401|address:2001:db8::/64|address:2001:db8::/64 12",
			"06:48:36.0015 address:198.51.100.4|GET|/old|-|example.com|200|address:198.51.100.4|address:198.51.100.4 4",
		},
	},
	{file: "traefik.log", title: "Traefik log", bad: 1, want: []string{
		"06:48:34.123456 203.0.113.7 1",
		"06:48:35 2001:db8:1:2::/64 1",
	}},
	{
		file: "traefik.log", title: "Traefik log", bad: 1, gone: 2, cost: "bytes",
		key: "{user}|{method}|{path}|{query}|{host}|{status}|{header:User-Agent}", want: []string{
			"06:48:34.123456 address:203.0.113.7|GET|/api/items|page=2|shop.example.com|200|curl/8.5.0 1234",
			"06:48:35 alice|POST|/login|-|shop.example.com|404|Mozilla/5.0 0",
		},
	},
	{file: "envoy.log", title: "Envoy log", want: []string{
		"06:48:34.409 10.44.1.23 1",
		"06:48:35 2001:db8:1:2::/64 1",
		"06:48:36.5 198.51.100.4 1",
	}},
	{
		file: "envoy.log", title: "Envoy log", gone: 2, cost: "bytes",
		key: "{header:X-Forwarded-For}|{method}|{path}|{query}|{host}|{status}|{header:User-Agent}|{header:X-Request-Id}", want: []string{
			"06:48:34.409 203.0.113.7,10.0.0.1|GET|/reviews/0|full=1|reviews|200|curl/8.5.0|0a4f3a36-9d2e-9f3a-8a54-000000000001 379",
			"06:48:35 address:2001:db8:1:2::/64|POST|/login|-|shop.example.com|401|address:2001:db8:1:2::/64|address:2001:db8:1:2::/64 12",
			"06:48:36.5 192.0.2.9|GET|/get|-|shop.example.com|200|curl/8.5.0|7 5",
		},
	},
	{
		file: "envoy.log", title: "Envoy log", gone: 2, fields: map[string]string{"address": "x_forwarded_for"}, want: []string{
			"06:48:34.409 203.0.113.7,10.0.0.1 1", // two addresses are not an address, and it is unknown which one to trust
			"06:48:35 - 1",
			"06:48:36.5 - 1", // it is spelled x-forwarded-for here
		},
	},
	{file: "haproxy.log", title: "HAProxy log", bad: 1, want: []string{
		"12:14:14.655 10.0.1.2 1",
		"20:26:09 127.0.0.1 1",
		"20:30:46 127.0.0.1 1",
		"08:31:57.13 127.0.0.1 1",
		"08:31:57.149 127.0.0.1 1",
		"08:32:17.654 127.0.0.1 1",
		"08:32:17.925 127.0.0.1 1",
		"15:18:55.798 127.0.0.1 1",
		"15:19:06.103 127.0.0.1 1",
		"15:26:31.462 10.0.0.1 1",
	}},
	{file: "haproxy.log", title: "HAProxy log", bad: 1, key: "{method}|{path}|{query}|{status}", cost: "bytes", gone: 9, want: []string{
		"12:14:14.655 GET|/index.html|-|200 2750",
		"20:26:09 GET|/|-|200 350", // without its protocol, as in the manual
		"20:30:46 GET|/|-|200 279",
		"08:31:57.13 HEAD|/|-|200 243",
		"08:31:57.149 HEAD|/|-|200 243",
		"08:32:17.654 GET|/image.iso|-|200 243",
		"08:32:17.925 GET|/cgi-bin/bug.cgi||502 243",
		"15:18:55.798 -|-|-|- 0",
		"15:19:06.103 -|-|-|408 0",
		"15:26:31.462 HEAD|/|-|503 0",
	}},
	{file: "alb.log", title: "AWS load balancer log", want: []string{
		"22:22:48.364 192.168.131.39 1",
		"22:22:48.364 192.168.131.39 1",
		"22:22:48.364 10.0.1.252 1",
		"22:22:48.364 10.0.0.140 1",
		"22:22:48.364 10.0.0.140 1",
		"22:22:48.364 192.168.131.39 1",
		"22:22:48.364 192.168.131.39 1",
		"23:39:43.945958 192.168.131.39 1",
	}},
	{
		file: "alb.log", title: "AWS load balancer log", gone: 2, cost: "bytes",
		key: "{method}|{host}|{path}|{status}|{header:User-Agent}", want: []string{
			"22:22:48.364 GET|www.example.com|/|200|curl/7.46.0 366",
			"22:22:48.364 GET|www.example.com|/|200|curl/7.46.0 57",
			"22:22:48.364 GET|10.0.2.105|/|200|curl/7.46.0 257",
			"22:22:48.364 GET|10.0.0.30|/|101|address:10.0.0.140 587",
			"22:22:48.364 GET|10.0.0.30|/|101|address:10.0.0.140 786",
			"22:22:48.364 GET|www.example.com|/|200|curl/7.46.0 366",
			"22:22:48.364 GET|www.example.com|/|502|curl/7.46.0 366",
			"23:39:43.945958 GET|www.example.com|/|200|curl/7.38.0 57",
		},
	},
	{file: "cloudfront.log", title: "CloudFront log", want: []string{
		"21:02:31 192.0.2.100 1",
		"21:02:31 192.0.2.100 1",
		"21:02:31 192.0.2.100 1",
		"22:36:27 192.0.2.200 1",
		"22:36:26 192.0.2.200 1",
		"22:37:02 192.0.2.200 1",
	}},
	{
		file: "cloudfront.log", title: "CloudFront log", gone: 5, cost: "bytes",
		key: "{method}|{host}|{path}|{status}|{header:Referer}|{header:User-Agent}", want: []string{
			"21:02:31 GET|d111111abcdef8.cloudfront.net|/index.html|200|address:192.0.2.100|Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/78.0.3904.108 Safari/537.36 392",
			"21:02:31 GET|d111111abcdef8.cloudfront.net|/index.html|200|address:192.0.2.100|Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/78.0.3904.108 Safari/537.36 392",
			"21:02:31 GET|d111111abcdef8.cloudfront.net|/index.html|200|address:192.0.2.100|Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/78.0.3904.108 Safari/537.36 392",
			"22:36:27 GET|www.example.com|/favicon.ico|502|http://www.example.com/|Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/78.0.3904.108 Safari/537.36 900",
			"22:36:26 GET|www.example.com|/|502|address:192.0.2.200|Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/78.0.3904.108 Safari/537.36 900",
			"22:37:02 GET|www.example.com|/|502|address:192.0.2.200|curl/7.55.1 900",
		},
	},
	{file: "lines.jsonl", title: "JSON lines", want: []string{
		"06:48:34 alice 3",
		"06:48:34.00025 bob 1",
		`06:48:35.5 carol "c" é 0`,
		"06:48:36 alice 2",
	}},
	{file: "lines.jsonl", title: "JSON lines", key: "{field:plan.name}", cost: "5", gone: 3, want: []string{
		"06:48:34 - 5",
		"06:48:34.00025 - 5",
		"06:48:35.5 free 5",
		"06:48:36 - 5",
	}},
	{
		file: "nginx.json.log", title: "JSON log", fields: map[string]string{"time": "time_local", "address": "remote_addr"},
		want: []string{"06:48:34 203.0.113.7 1", "06:48:35 unix: 1"},
	},
	{
		file: "nginx.json.log", title: "JSON log", gone: 2, cost: "field:tokens",
		fields: map[string]string{
			"time": "msec", "user": "remote_user", "path": "request.uri", "method": "request.method", "status": "status",
		},
		key: `{user}|{method}|{path}|{query}|{status}|{field:http.x\.api\.key}|{field:tenant.id}`,
		want: []string{
			"06:48:34.123 -|GET|/api/items|page=2|200|k-1|42 812",
			"06:48:35 alice|POST|/login|-|401|-|- 0",
		},
	},
}

func TestSamples(t *testing.T) {
	for _, s := range samples {
		t.Run(s.file+" "+s.key, func(t *testing.T) {
			opts := Options{Fields: s.fields}
			if s.key != "" {
				opts.Key = template(t, s.key)
			}
			if s.cost != "" {
				opts.Cost = costOf(t, s.cost)
			}
			r, err := Open(filepath.Join("testdata", s.file), opts)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			same(t, read(t, r), s.want)
			source := r.Source()
			if source.Format != s.title || source.Unreadable != s.bad || source.KeyMissing != s.gone {
				t.Errorf("got format %q with %d unreadable and %d keys missing, want %q, %d, %d: %+v",
					source.Format, source.Unreadable, source.KeyMissing, s.title, s.bad, s.gone, source.Examples)
			}
			if want := int64(len(s.want)); source.Requests != want || source.Lines != want+s.bad {
				t.Errorf("got %d requests in %d lines, want %d in %d", source.Requests, source.Lines, want, want+s.bad)
			}
			info, _ := os.Stat(filepath.Join("testdata", s.file))
			if r.Size() != info.Size() || r.BytesRead() != info.Size() {
				t.Errorf("got %d bytes of %d, want %d", r.BytesRead(), r.Size(), info.Size())
			}
		})
	}
}

// The time of a line is passed on as in the input, as JSON.
func TestTimeIsAsInTheInput(t *testing.T) {
	for text, want := range map[string]string{
		`1.1.1.1 - - [15/Nov/2026:06:48:34 +0000] "GET / HTTP/1.1" 200 1`: `"15/Nov/2026:06:48:34 +0000"`,
		`{"t":1794725314000.25,"key":"a"}`:                                `1794725314000.25`,
		`{"t":"2026-11-15T06:48:34Z","key":"a"}`:                          `"2026-11-15T06:48:34Z"`,
		`{"ts":1794725314.5241024,"request":{"method":"GET"}}`:            `1794725314.5241024`,
	} {
		r, err := NewReader("log", strings.NewReader(text), Options{})
		if err != nil {
			t.Fatal(err)
		}
		var line Line
		if err := r.Next(&line); err != nil || string(line.Time) != want {
			t.Errorf("%s: got time %s, %v, want %s", text, line.Time, err, want)
		}
	}
}
