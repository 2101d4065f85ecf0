package traffic

import (
	"strings"
	"testing"
)

// parserOf returns a parser of all fields of a text format.
func parserOf(t testing.TB, format string) *textParser {
	t.Helper()
	of, err := findLayout(format)
	if err != nil {
		t.Fatal(err)
	}
	s, err := shapeOf(of, nil)
	if err != nil {
		t.Fatal(err)
	}
	return newTextParser(s.columns, wants{fields: s.fields()}, s.hasFields)
}

func TestUnreadableCLF(t *testing.T) {
	const time = `[15/Nov/2026:06:48:34 +0000]`
	const timeWhy = "time: no time such as 2006-01-02T15:04:05Z or 02/Jan/2006:15:04:05 -0700 after {user}"
	for line, want := range map[string]string{
		`1.1.1.1 - - ` + time + ` "GET / HTTP/1.1" 200 5 "-" "x"`:                 "",
		`1.1.1.1 - - ` + time + ` "GET / HTTP/1.1" 200 5 "-" "x\\"`:               "",
		`1.1.1.1 - - ` + time + ` "" 400 0 "-" "-"`:                               "",
		`1.1.1.1 - "" ` + time + ` "GET /" 200 5 "" ""`:                           "",
		`1.1.1.1 - - ` + time + ` "GET / HTTP/1.1" 200 5`:                         "", // cut off
		`1.1.1.1 - - ` + time + ` "GET / HTTP/1.1" 200 5 "-" "x`:                  "", // cut off
		`1.1.1.1 - - ` + time + ` "GET / HTTP/1.1" 200 5 "-" "x\"`:                "", // cut off
		`1.1.1.1 - - ` + time + ` "GET / HTTP/1.1" 200 5 "-"`:                     "", // cut off
		`1.1.1.1 - - ` + time + ` "GET / HTTP/1.1" 200 x "-" "-"`:                 "bytes: no number after {status}",
		`1.1.1.1 - - ` + time + ` "GET / HTTP/1.1" 200`:                           "", // cut off
		`1.1.1.1 - - ` + time + ` "GET / HTTP/1.1" 2000 5 "-" "-"`:                "status: no number after {request}",
		`1.1.1.1 - - ` + time + ` "GET / HTTP/1.1"200 5 "-" "-"`:                  "status: no number after {request}",
		`1.1.1.1 - - ` + time + ` GET / HTTP/1.1 200 5 "-" "-"`:                   "request: no request after {time}",
		`1.1.1.1 - - ` + time + ` "GET / HTTP`:                                    "request: no request after {time}",
		`1.1.1.1 - - [15/Nov/2026:06:48:34 +0000`:                                 timeWhy,
		`1.1.1.1 - - [15/Nov/2026:06:61:34 +0000] "GET / HTTP/1.1" 200 5 "-" "-"`: timeWhy,
		`1.1.1.1 - - [15/Nov/1926:06:48:34 +0000] "GET / HTTP/1.1" 200 5 "-" "-"`: "time: must be between 1970 and 2245",
		// If a virtual host in front were read as the address, all its clients would be one.
		`shop.example.com:80 1.1.1.1 - - ` + time + ` "GET / HTTP/1.1" 200 5 "-" "-"`: timeWhy,
		`hello`:        "address: no address at the beginning",
		`hello world`:  "-: no text after {address}",
		` - - ` + time: "address: no address at the beginning",
	} {
		p := parserOf(t, "combined")
		if got := p.parse([]byte(line), newEntry(wants{})); got != want {
			t.Errorf("%s:\n got %q\nwant %q", line, got, want)
		}
	}
}

func TestRequestsInCLF(t *testing.T) {
	for request, want := range map[string]string{
		`GET / HTTP/1.1`:                   "GET|/|-",
		`GET /a?b?c HTTP/1.1`:              "GET|/a|b?c",
		`GET /a? HTTP/1.1`:                 "GET|/a|",
		`GET ?a HTTP/1.1`:                  "GET||a",
		`GET /with space HTTP/1.1`:         "GET|/with space|-",
		`M-SEARCH * HTTP/1.1`:              "M-SEARCH|*|-",
		`CONNECT example.com:443 HTTP/1.1`: "CONNECT|example.com:443|-",
		`GET /\xC3\xA9\x2\q\\ HTTP/1.1`:    `GET|/é\x2\q\|-`,
		`GET /?q=\"\x22 HTTP/1.1`:          `GET|/|q=""`,
		`GET /tab\there\n HTTP/1.1`:        "GET|/tab\there\n|-",
		`GET /`:                            "GET|/|-", // truncated

		`GET  HTTP/1.1`:                   "-|-|-",
		`GET http://a.example/b HTTP/1.1`: "GET|/b|-",
		`GET / FTP/1.1`:                   "-|-|-",
		`\x16\x03\x01 \x00 HTTP/1.1`:      "-|-|-",
		`-`:                               "-|-|-",
		``:                                "-|-|-",
	} {
		p := parserOf(t, "common")
		e := newEntry(wants{})
		for f := range fieldCount {
			e.values[f] = []byte("left over")
		}
		line := `1.1.1.1 - - [15/Nov/2026:06:48:34 +0000] "` + request + `" 200 5`
		if why := p.parse([]byte(line), e); why != "" {
			t.Errorf("%s: got %q, want a request", line, why)
		}
		var got []string
		for _, f := range []field{fieldMethod, fieldPath, fieldQuery} {
			text := string(e.values[f])
			if e.values[f] == nil {
				text = "-"
			}
			got = append(got, text)
		}
		if strings.Join(got, "|") != want {
			t.Errorf("%s: got %q, want %q", request, strings.Join(got, "|"), want)
		}
	}
}

// A line that is cut off after its status is still a request.
func TestTruncatedLines(t *testing.T) {
	const whole = `203.0.113.7 - frank [10/Oct/2026:13:55:36 +0000] "POST /login HTTP/1.1" 200 2326 "http://example.com/" "Mozilla/4.08"`
	status := strings.Index(whole, " 2326")
	for _, format := range []string{"common", "combined", Auto} {
		for end := status; end < len(whole); end++ {
			text := strings.Repeat(whole+"\n", 3) + whole[:end] + "\n"
			r, err := NewReader("cut.log", strings.NewReader(text), Options{Format: format, Key: template(t, "{address} {path} {status}")})
			if err != nil {
				t.Fatal(err)
			}
			var line Line
			for range 4 {
				if err := r.Next(&line); err != nil {
					t.Fatalf("%v: a log with the line %q: %v", format, whole[:end], err)
				}
			}
			if want := "203.0.113.7 /login 200"; string(line.Key) != want {
				t.Errorf("%v: %q: got key %q, want %q", format, whole[:end], line.Key, want)
			}
			if format == Auto && r.format != "combined" {
				t.Errorf("a combined log with the line %q: got format %v", whole[:end], r.format)
			}
		}
	}
	r, err := NewReader("cut.log", strings.NewReader(whole+"\n"+whole[:status-1]+"\n"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var line Line
	for r.Next(&line) == nil {
	}
	if got := r.Source(); got.Requests != 1 || got.Unreadable != 1 {
		t.Errorf("a line that is cut off within its status: got %+v, want 1 request and 1 unreadable line", got)
	}
}

// A line with the prefix of a syslog server, or with escaped quotes, is the same request.
func TestHAProxyBehindSyslog(t *testing.T) {
	const line = `10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in~ static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 ` +
		`"GET https://example.com/a#22b?c=d HTTP/2.0"`
	for _, before := range []string{
		"", "haproxy[1]: ", "Feb  6 12:14:14 localhost haproxy[14389]: ", "<134>Feb  6 12:14:14 haproxy[14389]: ",
		`<134>1 2009-02-06T12:14:14+00:00 host haproxy 14389 - [meta a="1"] `, "2009-02-06T12:14:14+00:00 host haproxy[14389]: ",
	} {
		for _, text := range []string{before + line, strings.ReplaceAll(before+line, ` "GET`, ` \"GET`)} {
			text = strings.ReplaceAll(text, `HTTP/2.0"`, `HTTP/2.0\"`)
			r, err := NewReader("log", strings.NewReader(text), Options{Key: template(t, "{address}|{method}|{path}|{query}|{status}")})
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			same(t, read(t, r), []string{`12:14:14.655 10.0.1.2|GET|/a"b|c=d|200 1`})
		}
	}
}

// An IPv6 address contains colons, and a socket has no address.
func TestHAProxyClients(t *testing.T) {
	for client, want := range map[string]string{"2001:db8:1:2::7:443": "2001:db8:1:2::/64", "unix:1": "unix"} {
		text := client + ` [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 "GET / HTTP/1.1"`
		r, err := NewReader("log", strings.NewReader(text), Options{})
		if err != nil {
			t.Fatal(err)
		}
		same(t, read(t, r), []string{"12:14:14.655 " + want + " 1"})
	}
}

func TestUnreadableBalancerLines(t *testing.T) {
	const haproxy = `10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 "GET / HTTP/1.1"`
	const alb = `http 2018-07-02T22:23:00.186641Z app/lb/50dc 192.168.131.39:2817 - 0.000 0.001 0.000 200 200 34 366 "GET http://example.com:80/ HTTP/1.1" "curl/7.46.0" - -`
	const cloudfront = "2019-12-04\t21:02:31\tLAX1\t392\t192.0.2.100\tGET\td1.cloudfront.net\t/index.html\t200\t-\tcurl\t-\t-\tHit\tx\td1.cloudfront.net\thttps\t1\t0.1\t-"
	const aTime = "no time such as 2006-01-02T15:04:05Z or 02/Jan/2006:15:04:05 -0700 "
	for _, tt := range []struct {
		format   string
		line     string
		old, new string
		want     string
	}{
		{"haproxy", haproxy, "", "", ""},
		{"haproxy", haproxy, "[06/Feb/2009:12:14:14.655]", "[06/Feb/2009:12:61:14.655]", "time: " + aTime + "after {address:port}"},
		{"haproxy", haproxy, "[06/Feb/2009:12:14:14.655] ", "", "time: " + aTime + "after {address:port}"},
		{"haproxy", haproxy, ".655]", ".655 +0000]", "time: " + aTime + "after {address:port}"},
		{"haproxy", haproxy, "10.0.1.2:33317", "10.0.1.2", "address:port: no address with a port at the beginning"},
		{"haproxy", haproxy, "10/0/30/69/109", "10/0/30", "status: no number after {-}"}, // not a line of option httplog
		{"haproxy", haproxy, " 200 ", " ok ", "status: no number after {-}"},
		{"haproxy", haproxy, "2750", "many", "bytes: no number after {status}"},
		{"haproxy", haproxy, `"GET / HTTP/1.1"`, "", "-: no text after {bytes}"},
		{"alb", alb, "", "", ""},
		{"alb", alb, "T22:", "T25:", "time: " + aTime + "at the beginning"},
		{"alb", alb, ":2817", "", "address:port: no address with a port after {-}"},
		{"alb", alb, " 200 200 ", " ok 200 ", "status: no number after {-}"},
		{"alb", alb, " 366 ", " many ", "bytes: no number after {-}"},
		{"alb", alb, `"GET`, "GET", "request:url: no request after {bytes}"},
		{"alb", alb, `"curl/7.46.0"`, "", "header:User-Agent: no header:User-Agent after {request:url}"},
		{"cloudfront", cloudfront, "", "", ""},
		{"cloudfront", cloudfront, "21:02:31", "late", "time: " + aTime + "after {date}"},
		{"cloudfront", cloudfront, "\tx\td1.cloudfront.net", "", "-: no text after {-}"},
	} {
		parser := parserOf(t, tt.format)
		line := strings.Replace(tt.line, tt.old, tt.new, 1)
		if got := parser.parse([]byte(line), newEntry(wants{})); got != tt.want {
			t.Errorf("%s:\n got %q\nwant %q", line, got, tt.want)
		}
	}
}

// The columns are those of the last #Fields line, wherever it is.
func TestCloudFrontColumns(t *testing.T) {
	text := "#Version: 1.0\n#Fields: date time c-ip cs-uri-stem cs-uri-query\n" +
		"2019-12-04\t21:02:31\t192.0.2.1\t/a\tb=c\n" +
		"#Fields: timestamp(ms) cs-uri-stem c-ip\n" +
		"1575493352500\t/d\t192.0.2.2\n" +
		"1575493353.25\t/e\t192.0.2.3\tmore\n"
	r, err := NewReader("log", strings.NewReader(text), Options{Key: template(t, "{address} {path} {query} {host}"), Format: "cloudfront"})
	if err != nil {
		t.Fatal(err)
	}
	same(t, read(t, r), []string{"21:02:31 192.0.2.1 /a b=c - 1", "21:02:32.5 192.0.2.2 /d - - 1", "21:02:33.25 192.0.2.3 /e - - 1"})
	if s := r.Source(); s.Lines != 3 || s.Unreadable != 0 {
		t.Errorf("got %d lines, %d of them unreadable, want 3 and 0: %v", s.Lines, s.Unreadable, s.Examples)
	}
}
