package traffic

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// benchLog returns a log of a thousand lines with realistic addresses and keys: many, of different lengths.
func benchLog(line func(i int, r *rand.Rand) string) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	for i := range 1000 {
		b.WriteString(line(i, r))
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// repeat reads a text repeatedly, up to a number of lines.
type repeat struct {
	text  []byte
	times int
	i     int
}

func (r *repeat) Read(p []byte) (int, error) {
	if r.i == len(r.text) {
		r.i = 0
		r.times--
	}
	if r.times <= 0 {
		return 0, io.EOF
	}
	n := copy(p, r.text[r.i:])
	r.i += n
	return n, nil
}

func benchRead(b *testing.B, text []byte, opts Options) {
	reader, err := NewReader("bench", &repeat{text: text, times: b.N/1000 + 1}, opts)
	if err != nil {
		b.Fatal(err)
	}
	var line Line
	b.SetBytes(int64(len(text) / 1000))
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if err := reader.Next(&line); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lines/s")
	if got := reader.Source().Unreadable; got != 0 {
		b.Fatalf("got %d unreadable lines: %v", got, reader.Source().Examples)
	}
}

func BenchmarkRead(b *testing.B) {
	formats := map[string]func(i int, r *rand.Rand) string{
		"lines": func(i int, r *rand.Rand) string {
			return fmt.Sprintf(`{"t":%d,"key":"user-%d","cost":%d}`, 1794725314000+int64(i), r.IntN(1_000_000), 1+r.IntN(9))
		},
		"lines-general": func(i int, r *rand.Rand) string {
			return fmt.Sprintf(`{"t":%d,"key":"user-%d","cost":%d,"plan":"free"}`, 1794725314000+int64(i), r.IntN(1_000_000), 1+r.IntN(9))
		},
		"combined": func(i int, r *rand.Rand) string {
			return fmt.Sprintf(`203.0.%d.%d - - [15/Nov/2026:06:%02d:%02d +0000] "GET /api/v1/items/%d?page=2 HTTP/1.1" 200 %d `+
				`"https://shop.example.com/" "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"`,
				r.IntN(256), r.IntN(256), i/60, i%60, r.IntN(1000), r.IntN(100_000))
		},
		"caddy": func(i int, r *rand.Rand) string {
			return fmt.Sprintf(`{"level":"info","ts":%d.5241024,"logger":"http.log.access.log0","msg":"handled request","request":`+
				`{"remote_ip":"203.0.%d.%d","remote_port":"41342","client_ip":"203.0.113.%d","proto":"HTTP/2.0","method":"GET",`+
				`"host":"shop.example.com","uri":"/api/items?page=2","headers":{"User-Agent":["curl/8.5.0"],"Accept":["*/*"],`+
				`"Accept-Encoding":["gzip, deflate, br"]},"tls":{"resumed":false,"version":772,"cipher_suite":4865,"proto":"h2",`+
				`"server_name":"shop.example.com"}},"bytes_read":0,"user_id":"","duration":0.000929675,"size":10900,"status":200,`+
				`"resp_headers":{"Server":["Caddy"],"Content-Encoding":["gzip"],"Content-Type":["text/html; charset=utf-8"],`+
				`"Vary":["Accept-Encoding"]}}`, 1794725314+i, r.IntN(256), r.IntN(256), r.IntN(256))
		},
	}
	for _, format := range []string{"haproxy", "alb", "cloudfront"} {
		formats[format] = publishedLine(b, format+".log")
	}
	for _, name := range []string{"lines", "lines-general", "combined", "caddy", "haproxy", "alb", "cloudfront"} {
		b.Run(name, func(b *testing.B) { benchRead(b, benchLog(formats[name]), Options{}) })
	}
}

// publishedLine returns the first line of a published sample, repeated.
func publishedLine(b *testing.B, file string) func(int, *rand.Rand) string {
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if line[0] != '#' {
			return func(int, *rand.Rand) string { return strings.TrimSuffix(line, "\n") }
		}
	}
	b.Fatalf("%s has no line", file)
	return nil
}
