package generate

import (
	"context"
	"io"
	"math/bits"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/traffic"
	"github.com/slidegate/slidegate/rule"
)

// WriteCombined writes the rest of t in the Combined Log Format of Apache and nginx:
//
//	192.0.2.1 - user-0001 [05/Jan/2026:00:00:00 +0000] "GET /api/v1/products HTTP/1.1" 200 5120 "-" "okhttp/4.12.0"
//
// Each key has a unique address, for IPv6 in a unique network, and always the same user agent. Users and edge bursters
// are logged in, scrapers and bots are not. The format has whole seconds and no cost, so fractions and costs are lost.
// WriteCombined stops after a whole line when ctx is done, and returns the cause.
func WriteCombined(ctx context.Context, w io.Writer, t *Traffic) error {
	l := accessLog{traffic: t, rng: random(t.options.Seed, forLogs), second: -1}
	return write(ctx, w, t, l.appendLine)
}

// accessLog generates the fields of an access log other than the time and the key.
type accessLog struct {
	traffic *Traffic
	rng     *rand.PCG
	second  rule.Micros // the second that date is for, since the Unix epoch
	date    []byte
}

func (l *accessLog) appendLine(b []byte, line *traffic.Line) []byte {
	by, d := l.traffic.last, dice(l.rng.Uint64())
	b = by.address().AppendTo(b)
	b = append(b, " - "...)
	if by.kind == user || by.kind == edge {
		b = append(b, line.Key...)
	} else {
		b = append(b, '-')
	}
	b = l.appendDate(b, line.At)
	e := pickEndpoint(by.kind, &d)
	b = e.appendRequest(b, &d)
	b = e.appendResponse(b, &d)
	agent := by.agent()
	b = append(b, ` "`...)
	b = append(b, e.referer(agent, &d)...)
	b = append(b, `" "`...)
	b = append(b, agent...)
	return append(b, "\"\n"...)
}

// appendDate appends the date, which is formatted once per second.
func (l *accessLog) appendDate(b []byte, at rule.Micros) []byte {
	if second := at / 1_000_000; second != l.second {
		l.second = second
		l.date = time.Unix(int64(second), 0).UTC().AppendFormat(l.date[:0], " [02/Jan/2006:15:04:05 -0700] ")
	}
	return append(b, l.date...)
}

// dice is a random number from which several small choices are drawn.
type dice uint64

// roll picks a number below n, and keeps the remaining randomness for the next roll. The product of the n of a line
// must stay well below 2^64.
func (d *dice) roll(n uint64) uint64 {
	picked, rest := bits.Mul64(uint64(*d), n)
	*d = dice(rest)
	return picked
}

// agent returns the user agent of the key, which never changes.
func (w keyID) agent() string {
	switch w.kind {
	case scraper:
		return "python-requests/2.32.3"
	case edge:
		return "Go-http-client/1.1"
	default:
		return agents[mix(uint64(w.number))%uint64(len(agents))]
	}
}

func (e *endpoint) appendRequest(b []byte, d *dice) []byte {
	b = append(b, '"')
	b = append(b, e.method...)
	b = append(b, ' ')
	b = append(b, e.path...)
	if e.numbered {
		b = strconv.AppendUint(b, 1+d.roll(5_000), 10)
	}
	return append(b, ` HTTP/1.1" `...)
}

// appendResponse appends the status and the size. Of 200 requests, 4 are not found if numbered, 2 are unauthorized, 1
// fails; and of those that only read, about 24 are not modified.
func (e *endpoint) appendResponse(b []byte, d *dice) []byte {
	status, size := e.status, e.bytes/2+d.roll(e.bytes+1)
	switch n := d.roll(200); {
	case n < 4 && e.numbered:
		status, size = 404, 153
	case n == 4 || n == 5:
		status, size = 401, 87
	case n == 6:
		status, size = 500, 141
	case n < 31 && e.method == "GET":
		status, size = 304, 0
	}
	b = strconv.AppendUint(b, status, 10)
	b = append(b, ' ')
	return strconv.AppendUint(b, size, 10)
}

// referer returns the referer: programs send none, and people find pages in several ways.
func (e *endpoint) referer(agent string, d *dice) string {
	if !e.page || !strings.HasPrefix(agent, "Mozilla/") {
		return "-"
	}
	return referers[d.roll(uint64(len(referers)))]
}
