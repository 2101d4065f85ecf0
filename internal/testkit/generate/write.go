package generate

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"time"
)

// Lines writes traffic as JSON lines: {"t":1767571200123.456,"key":"user-0001","cost":1}, with the time in milliseconds.
func Lines(w io.Writer, o Options) error {
	t, err := o.traffic()
	if err != nil {
		return err
	}
	return t.write(w, func(b []byte, q request) []byte {
		b = strconv.AppendFloat(append(b, `{"t":`...), float64(q.at)/1000, 'f', -1, 64)
		return fmt.Appendf(b, `,"key":"%s","cost":1}`+"\n", q.key())
	})
}

// Combined writes traffic in the Combined Log Format of Apache and nginx:
//
//	192.0.2.1 - user-0001 [05/Jan/2026:00:00:00 +0000] "GET /api/v1/products HTTP/1.1" 200 5120 "-" "okhttp/4.12.0"
//
// Each key has its own address, in IPv6 its own /64, and always the same user agent. Users and edge bursters are logged
// in. The format has whole seconds, so fractions are lost.
func Combined(w io.Writer, o Options) error {
	t, err := o.traffic()
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(t.seed, 1<<32))
	return t.write(w, func(b []byte, q request) []byte {
		b = q.kind.address(q.number).AppendTo(b)
		name := q.key()
		if q.kind == bot || q.kind == scraper {
			name = "-"
		}
		b = append(append(b, " - "...), name...)
		b = time.UnixMicro(q.at).UTC().AppendFormat(b, " [02/Jan/2006:15:04:05 -0700] ")
		return appendExchange(b, q.kind, q.number, random)
	})
}

// key returns the key of a request, such as user-0001.
func (q request) key() string { return fmt.Sprintf("%s-%04d", q.kind, q.number) }

// write writes the lines of all requests.
func (t *synthetic) write(w io.Writer, appendLine func([]byte, request) []byte) error {
	out := bufio.NewWriterSize(w, 1<<18)
	var text []byte
	for q, ok := t.next(); ok; q, ok = t.next() {
		text = appendLine(text[:0], q)
		if _, err := out.Write(text); err != nil {
			return err
		}
	}
	return out.Flush()
}

// kind is the kind of a key.
type kind uint8

const (
	user kind = iota
	bot
	edge
	scraper
)

// String returns the beginning of the keys of this kind.
func (k kind) String() string { return [...]string{"user", "bot", "edge", "scraper"}[k] }

// address returns the address of a key, from the ranges reserved for documentation: of IPv4 for the first keys of each
// kind, and then one IPv6 network for each.
func (k kind) address(number int64) netip.Addr {
	if (k == user || k == bot) && number < 255 || k == edge && number < 155 || k == scraper {
		first := [...][4]byte{user: {192, 0, 2, 0}, bot: {198, 51, 100, 0}, edge: {203, 0, 113, 100}, scraper: {203, 0, 113, 0}}[k]
		first[3] += byte(number)
		return netip.AddrFrom4(first)
	}
	const perKind = 1 << 30
	network := uint32(k)*perKind | uint32(number)%perKind
	return netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, byte(network >> 24), byte(network >> 16), byte(network >> 8), byte(network), 15: 1})
}

// endpoint is the target of generated requests.
type endpoint struct {
	method, path string // a path that ends in = or / is followed by a number
	status       int
	bytes        int // the average size of the response
}

// endpoints are in the order of their popularity.
var endpoints = []endpoint{
	{"GET", "/api/v1/products", 200, 5_200},
	{"GET", "/api/v1/products/", 200, 1_400},
	{"GET", "/home", 200, 14_200},
	{"GET", "/api/v1/search?page=", 200, 3_900},
	{"GET", "/api/v1/session", 200, 320},
	{"POST", "/api/v1/events", 202, 2},
	{"GET", "/products", 200, 31_500},
	{"POST", "/api/v1/cart/items", 201, 410},
	{"GET", "/search?q=", 200, 18_300},
	{"POST", "/api/v1/login", 200, 530},
	{"DELETE", "/api/v1/cart/items/", 204, 0},
	{"GET", "/static/app.js", 200, 184_000},
}

var agents = []string{
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:145.0) Gecko/20100101 Firefox/145.0",
	"Mozilla/5.0 (iPhone; CPU iPhone OS 18_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.1 Safari/604.1",
	"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/143.0.0.0 Safari/537.36",
	"ShopApp/5.4.1 (Android 16)",
	"okhttp/4.12.0",
}

// appendExchange appends the request, the response and the headers of a line.
func appendExchange(b []byte, k kind, number int64, random *rand.Rand) []byte {
	share := random.Float64()
	e := endpoints[int(share*share*float64(len(endpoints)))] // squared, so that the first ones are more frequent
	agent := agents[number%int64(len(agents))]
	switch {
	case k == scraper: // it reads all products one by one
		e, agent = endpoints[1], "python-requests/2.32.3"
	case k == bot && random.IntN(2) == 0: // every second request tries to log in
		e = endpoints[9]
	case k == edge:
		agent = "Go-http-client/1.1"
	}
	path := e.path
	if last := path[len(path)-1]; last == '/' || last == '=' {
		path += strconv.Itoa(1 + random.IntN(5_000))
	}
	status, size := e.status, e.bytes/2+random.IntN(e.bytes+1)
	switch random.IntN(100) {
	case 0:
		status, size = 500, 141
	case 1, 2:
		status, size = 401, 87
	}
	return fmt.Appendf(b, "\"%s %s HTTP/1.1\" %d %d \"-\" \"%s\"\n", e.method, path, status, size, agent)
}
