package traffic

import (
	"strings"
	"testing"
)

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
	const cloudfront = "2019-12-04\t21:02:31\tLAX1\t392\t192.0.2.100\tGET\td1.cloudfront.net\t/index.html\t200\t-\tcurl\t-\t-\tHit\tx\td1.cloudfront.net"
	for _, tt := range []struct {
		format   Format
		line     string
		old, new string
		want     string
	}{
		{FormatHAProxy, haproxy, "", "", ""},
		{FormatHAProxy, haproxy, "[06/Feb/2009:12:14:14.655]", "[06/Feb/2009:12:61:14.655]", "time: want a time such as 06/Feb/2009:12:14:14.655"},
		{FormatHAProxy, haproxy, "[06/Feb/2009:12:14:14.655] ", "", "time: no [06/Feb/2009:12:14:14.655] after the address"},
		{FormatHAProxy, haproxy, ".655]", ".655 +0000]", "time: want a time such as 06/Feb/2009:12:14:14.655"},
		{FormatHAProxy, haproxy, "10.0.1.2:33317", "10.0.1.2", "address: no address with a port before the time"},
		{FormatHAProxy, haproxy, "10/0/30/69/109", "10/0/30", "request: not a line of option httplog: five timers are missing"},
		{FormatHAProxy, haproxy, " 200 ", " ok ", "status: no number after the timers"},
		{FormatHAProxy, haproxy, "2750", "many", "bytes: no number after the status"},
		{FormatHAProxy, haproxy, `"GET / HTTP/1.1"`, "", "request: no quoted request at the end"},
		{FormatALB, alb, "", "", ""},
		{FormatALB, alb, "T22:", "T25:", "time: no time such as 2018-07-02T22:23:00.186641Z after the type"},
		{FormatALB, alb, ":2817", "", "address: no address with a port after the load balancer"},
		{FormatALB, alb, " 200 200 ", " ok 200 ", "status: no number after the times"},
		{FormatALB, alb, " 366 ", " many ", "bytes: no number after the status"},
		{FormatALB, alb, `"GET`, "GET", "request: no quoted request after the bytes"},
		{FormatALB, alb, `"curl/7.46.0"`, "", "user agent: no quoted user agent after the request"},
		{FormatCloudFront, cloudfront, "", "", ""},
		{FormatCloudFront, cloudfront, "21:02:31", "late", "time: want a date and time such as 2019-12-04 and 21:02:31"},
		{FormatCloudFront, cloudfront, "\tx\td1.cloudfront.net", "", "columns: fewer than #Fields names"},
	} {
		parser := layouts[tt.format].text.parser(wants{fields: layouts[tt.format].text.fields})
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
	r, err := NewReader("log", strings.NewReader(text), Options{Key: template(t, "{address} {path} {query} {host}"), Format: FormatCloudFront})
	if err != nil {
		t.Fatal(err)
	}
	same(t, read(t, r), []string{"21:02:31 192.0.2.1 /a b=c - 1", "21:02:32.5 192.0.2.2 /d - - 1", "21:02:33.25 192.0.2.3 /e - - 1"})
	if s := r.Source(); s.Lines != 3 || s.Unreadable != 0 {
		t.Errorf("got %d lines, %d of them unreadable, want 3 and 0: %v", s.Lines, s.Unreadable, s.Examples)
	}
}
