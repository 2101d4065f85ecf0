package proxy

import (
	"net/http"
	"strconv"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/rule"
)

// told returns what the answer to an admitted request tells, or nil for nothing.
func (p *Proxy) told(v *gate.Verdict) http.Header {
	if p.opts.Headers == httplimit.HeadersNone || v.Policy == "" {
		return nil
	}
	h := make(http.Header, 3)
	p.write(h, v)
	return h
}

// write tells about a verdict in the dialect that was chosen. Retry-After, with a refusal that ends, is in all of them.
func (p *Proxy) write(h http.Header, v *gate.Verdict) {
	p.tell.Write(h, v)
	if p.opts.Headers == httplimit.HeadersIETF {
		return
	}
	_, counted := h["Ratelimit"]
	delete(h, "Ratelimit")
	delete(h, "Ratelimit-Policy")
	if counted && p.opts.Headers != httplimit.HeadersNone {
		p.trio(h, v)
	}
}

// trio writes the three fields of the older dialects, about the limit that decided.
func (p *Proxy) trio(h http.Header, v *gate.Verdict) {
	d, prefix := &v.Decision, "X-Ratelimit-"
	if p.opts.Headers == httplimit.HeadersDraft03 {
		prefix = "Ratelimit-"
	}
	wait := d.ResetAfter
	if !d.Allowed && d.RetryAfter != slidegate.Never {
		wait = d.RetryAfter
	}
	reset := rule.Micros(wait.Microseconds())
	if p.opts.Headers == httplimit.HeadersX {
		reset += d.At
	}
	const second = rule.Micros(time.Second / time.Microsecond)
	h[prefix+"Limit"] = []string{strconv.FormatInt(d.Quota, 10)}
	h[prefix+"Remaining"] = []string{strconv.FormatInt(d.Remaining, 10)}
	h[prefix+"Reset"] = []string{strconv.FormatInt(int64(reset/second+min(1, reset%second)), 10)}
}
