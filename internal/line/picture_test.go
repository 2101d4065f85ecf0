package line_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
)

var picture = flag.String("picture", "", "where TestPicture writes the picture, instead of comparing it")

// The picture shows 100 requests, one each 15 ms, on a limit of 20 a second.
const (
	pictured  = 100
	every     = 15 * time.Millisecond
	longest   = 2 * time.Second
	limitText = "20/1s token-bucket burst=5"
)

// fate is what became of a request of the picture.
type fate struct {
	came, answered time.Duration
	served         bool
}

// serveAll serves the requests of the picture, which may wait.
func serveAll(t *testing.T, wait time.Duration) (fates [pictured]fate) {
	synctest.Test(t, func(t *testing.T) {
		limiter := slidegate.MustNew(testkit.Must(memstore.New(memstore.Options{}))(t), slidegate.MustParseLimit(limitText))
		start := time.Now()
		var all sync.WaitGroup
		for i := range pictured {
			all.Go(func() {
				time.Sleep(time.Duration(i) * every)
				fates[i].came = time.Since(start)
				ctx, cancel := context.WithTimeout(t.Context(), wait+time.Microsecond)
				defer cancel()
				fates[i].served = limiter.Wait(ctx, "key", 1) == nil
				fates[i].answered = time.Since(start)
			})
		}
		all.Wait()
	})
	return fates
}

// TestPicture compares docs/waiting.svg with a drawing of what becomes of the requests, or writes it.
func TestPicture(t *testing.T) {
	drawn := drawFates(serveAll(t, 0), serveAll(t, longest))
	if *picture != "" {
		if err := os.WriteFile(*picture, drawn, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(testkit.Must(os.ReadFile("../../docs/waiting.svg"))(t), drawn) {
		t.Error("docs/waiting.svg is not what this test draws; run make draw")
	}
}

const fateStyle = `<style>
:root { --page: #ffffff; --text: #1f2328; --quiet: #59636e; --line: #d1d9e0; --wait: #54aeff; --good: #1a7f37; --bad: #cf222e }
@media (prefers-color-scheme: dark) {
:root { --page: #0d1117; --text: #f0f6fc; --quiet: #9198a1; --line: #3d444d; --wait: #1f6feb; --good: #3fb950; --bad: #f85149 } }
text { fill: var(--text) } .quiet { fill: var(--quiet) } .title { font-size: 16px; font-weight: 600 } .page { fill: var(--page) } .line { stroke: var(--line) }
.wait { stroke: var(--wait); stroke-width: 2 } .served { fill: var(--good) } .refused { stroke: var(--bad); stroke-width: 1.6; fill: none }
</style>
`

// drawFates draws the requests as rows, from when they came until they were answered.
func drawFates(refusing, waiting [pictured]fate) []byte {
	var svg bytes.Buffer
	svg.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 520" font-family="system-ui, sans-serif" font-size="13">
<title>100 requests on a limit of 20 a second, without and with a line</title>
` + fateStyle + `<rect class="page" width="960" height="520"/>
`)
	for i, panel := range []struct {
		title string
		fates [pictured]fate
	}{{"refuse", refusing}, {"wait: 2s", waiting}} {
		left, served, at := 24+i*480, 0, time.Duration(0)
		for _, f := range panel.fates {
			if f.served {
				served, at = served+1, f.answered
			}
		}
		x := func(d time.Duration) float64 { return float64(left) + 110*d.Seconds() }
		fmt.Fprintf(&svg, "<text class=\"title\" x=\"%d\" y=\"30\">%s</text>\n", left, panel.title)
		fmt.Fprintf(&svg, "<text class=\"quiet\" x=\"%d\" y=\"50\">%d of %d served, the last after %.1f s; the others are told at once</text>\n", left, served, pictured, at.Seconds())
		for s := range 5 {
			at := x(time.Duration(s) * time.Second)
			fmt.Fprintf(&svg, "<line class=\"line\" x1=\"%.1f\" x2=\"%.1f\" y1=\"62\" y2=\"476\"/><text class=\"quiet\" x=\"%.1f\" y=\"492\" text-anchor=\"middle\">%d s</text>\n", at, at, at, s)
		}
		for row, f := range panel.fates {
			y := 66 + 4.08*float64(row)
			from, to := x(f.came), x(f.answered)
			if f.served {
				fmt.Fprintf(&svg, "<line class=\"wait\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/><circle class=\"served\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.2\"/>\n", from, to, y, y, to, y)
			} else {
				fmt.Fprintf(&svg, "<path class=\"refused\" d=\"M%.1f %.1fl4 4m-4 0l4 -4\"/>\n", from-2, y-2)
			}
		}
	}
	svg.WriteString(`<circle class="served" cx="30" cy="508" r="3"/><text class="quiet" x="40" y="512">served</text>
<line class="wait" x1="104" x2="128" y1="508" y2="508"/><text class="quiet" x="136" y="512">in line</text>
<path class="refused" d="M200 506l4 4m-4 0l4 -4"/><text class="quiet" x="212" y="512">refused</text>
<text class="quiet" x="936" y="512" text-anchor="end">100 requests, one each 15 ms, from top to bottom; ` + limitText + `</text>
</svg>
`)
	return svg.Bytes()
}
