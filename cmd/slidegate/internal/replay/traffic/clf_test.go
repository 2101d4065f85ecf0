package traffic

import (
	"strings"
	"testing"
)

func TestUnreadableCLF(t *testing.T) {
	const time = `[15/Nov/2026:06:48:34 +0000]`
	for line, want := range map[string]string{
		`1.1.1.1 - - ` + time + ` "GET / HTTP/1.1" 200 5 "-" "x"`:                 "",
		`1.1.1.1 - - ` + time + ` "GET / HTTP/1.1" 200 5 "-" "x\\"`:               "",
		`1.1.1.1 - - ` + time + ` "" 400 0 "-" "-"`:                               "",
		`1.1.1.1 - "" ` + time + ` "GET /" 200 5 "" ""`:                           "",
		`1.1.1.1 - - ` + time + ` "GET / HTTP/1.1" 200 5`:                         "", // cut off
		`1.1.1.1 - - ` + time + ` "GET / HTTP/1.1" 200 5 "-" "x`:                  "", // cut off
		`1.1.1.1 - - ` + time + ` "GET / HTTP/1.1" 200 5 "-" "x\"`:                "", // cut off
		`1.1.1.1 - - ` + time + ` "GET / HTTP/1.1" 200 5 "-"`:                     "", // cut off
		`1.1.1.1 - - ` + time + ` "GET / HTTP/1.1" 200 x "-" "-"`:                 "bytes: no number after the status",
		`1.1.1.1 - - ` + time + ` "GET / HTTP/1.1" 200`:                           "", // cut off
		`1.1.1.1 - - ` + time + ` "GET / HTTP/1.1" 2000 5 "-" "-"`:                "status: no number after the request",
		`1.1.1.1 - - ` + time + ` "GET / HTTP/1.1"200 5 "-" "-"`:                  "request: no quoted request after the time",
		`1.1.1.1 - - ` + time + ` GET / HTTP/1.1 200 5 "-" "-"`:                   "request: no quoted request after the time",
		`1.1.1.1 - - ` + time + ` "GET / HTTP`:                                    "request: no quoted request after the time",
		`1.1.1.1 - - [15/Nov/2026:06:48:34 +0000`:                                 "time: no [02/Jan/2006:15:04:05 -0700] after the user",
		`1.1.1.1 - - [15/Nov/2026:06:61:34 +0000] "GET / HTTP/1.1" 200 5 "-" "-"`: "time: want a time such as 02/Jan/2006:15:04:05 -0700",
		`1.1.1.1 - - [15/Nov/1926:06:48:34 +0000] "GET / HTTP/1.1" 200 5 "-" "-"`: "time: must be between 1970 and 2245",
		// If a virtual host in front were read as the address, all its clients would be one.
		`shop.example.com:80 1.1.1.1 - - ` + time + ` "GET / HTTP/1.1" 200 5 "-" "-"`: "address: more than address, identity and user before the time",
		`hello`:        "address: the line does not begin with address, identity and user",
		`hello world`:  "time: no [02/Jan/2006:15:04:05 -0700] after the user",
		` - - ` + time: "address: the line does not begin with address, identity and user",
	} {
		p := newCLFParser(true, wants{fields: clfFields})
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
		`GET /`:                            "-|-|-",
		`GET  HTTP/1.1`:                    "-|-|-",
		`GET / FTP/1.1`:                    "-|-|-",
		`\x16\x03\x01 \x00 HTTP/1.1`:       "-|-|-",
		`-`:                                "-|-|-",
		``:                                 "-|-|-",
	} {
		p := newCLFParser(false, wants{fields: clfFields})
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
	for _, format := range []Format{FormatCommon, FormatCombined, FormatAuto} {
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
			if format == FormatAuto && r.format != FormatCombined {
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
