package lease_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/lease"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

var pictureFlag = flag.String("picture", "", "the file to draw ten instances to, as SVG")

// instance is one of the ten in the picture: how often it sends requests, and what happened to it.
type instance struct {
	story        string
	rate         int           // requests per second
	begins, ends time.Duration // ends 0: at the end of the picture
	killed       bool          // when it ends

	start    time.Time
	mu       sync.Mutex
	events   []event
	admitted int64
	refused  []time.Duration
}

// event is something that happened to units.
type event struct {
	at    time.Duration
	what  eventKind
	units int64
}

type eventKind int

const (
	taken    eventKind = iota // leased
	spent                     // from a lease
	returned                  // from a lease
	direct                    // admitted by the store, without a lease
)

const (
	pictureQuota = 5000
	pictureSpan  = 2400 * time.Millisecond
	roundTrip    = 2 * time.Millisecond
)

func tenInstances() []*instance {
	return []*instance{
		{story: "busy", rate: 450},
		{story: "busy", rate: 350},
		{story: "busy", rate: 350},
		{story: "busy", rate: 300},
		{story: "busy", rate: 300},
		{story: "less busy", rate: 200},
		{story: "goes idle", rate: 400, ends: 600 * time.Millisecond},
		{story: "starts later", rate: 400, begins: 1200 * time.Millisecond},
		{story: "is killed", rate: 400, ends: 1525 * time.Millisecond, killed: true},
		{story: "few requests", rate: 40},
	}
}

// network is the connection of an instance to the store that all share.
type network struct {
	distant
	of *instance
}

func (w network) TakeSingle(ctx context.Context, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	<-time.After(roundTrip / 2)
	allowed, flags, remaining, after, resetAfter, at, err = w.Store.TakeSingle(ctx, limit, key, cost)
	<-time.After(roundTrip / 2)
	if allowed {
		w.of.note(direct, cost)
	}
	return allowed, flags, remaining, after, resetAfter, at, err
}

func (w network) Apply(ctx context.Context, batch []store.Request) error {
	if i := w.of; i.killed && time.Since(i.start) >= i.ends {
		for k := range batch {
			batch[k].Err = errKilled
		}
		return errKilled
	}
	for i := range batch {
		if batch[i].Op == rule.GiveBack {
			w.of.note(returned, batch[i].Charges[0].Cost)
		}
	}
	<-time.After(roundTrip / 2)
	err := w.Store.Apply(ctx, batch)
	<-time.After(roundTrip / 2)
	for i := range batch {
		if batch[i].Op == rule.TakeUpTo && batch[i].Err == nil {
			w.of.note(taken, batch[i].Answers[0].Granted)
		}
	}
	return err
}

var errKilled = errors.New("killed")

func (i *instance) note(what eventKind, units int64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.events = append(i.events, event{time.Since(i.start), what, units})
}

// run sends requests for as long as the instance lives.
func (i *instance) run(t *testing.T, remote distant, limit slidegate.Limit, r *rand.Rand) {
	s := lease.New(network{remote, i}, lease.Options{MaxKeys: 8, Spent: func(s lease.Spend) { i.note(spent, s.Units) }})
	limiter := testkit.Must(slidegate.New(s, limit))(t)
	ends := i.ends
	if ends == 0 {
		ends = pictureSpan
	}
	<-time.After(i.begins)
	for time.Since(i.start) < ends {
		go i.send(limiter)
		<-time.After(time.Duration((0.5 + r.Float64()) * float64(time.Second) / float64(i.rate)))
	}
	<-time.After(pictureSpan - ends)
	_ = s.Close(context.Background())
}

func (i *instance) send(limiter *slidegate.Limiter) {
	d, err := limiter.Allow(context.Background(), "tenant:7")
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case err != nil:
	case d.Allowed:
		i.admitted++
	default:
		i.refused = append(i.refused, time.Since(i.start))
	}
}

// TestPicture has ten instances share a quota, and compares docs/leases.svg with a drawing of what each of them holds, or writes the
// drawing to the file named by -picture.
func TestPicture(t *testing.T) {
	all := tenInstances()
	synctest.Test(t, func(t *testing.T) {
		remote := newDistant(t, memstore.Options{})
		limit := slidegate.MustParseLimit(fmt.Sprintf("%d/1m segments=60 overlap=whole lease", pictureQuota))
		start := time.Now()
		for k, i := range all {
			i.start = start
			go i.run(t, remote, limit, rand.New(rand.NewPCG(uint64(k), 7)))
		}
		testkit.Pass(pictureSpan + 5*time.Second)
	})
	var admitted, refused int64
	for _, i := range all {
		admitted, refused = admitted+i.admitted, refused+int64(len(i.refused))
	}
	if admitted > pictureQuota || admitted < pictureQuota*98/100 || refused == 0 {
		t.Errorf("got %d of %d admitted, %d refused; want nearly all, and some refused", admitted, pictureQuota, refused)
	}
	drawn := drawInstances(all)
	if *pictureFlag != "" {
		if err := os.WriteFile(*pictureFlag, []byte(drawn), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(testkit.Must(os.ReadFile("../../../docs/leases.svg"))(t)) != drawn {
		t.Error("docs/leases.svg is not what this test draws; run make lease-picture")
	}
}

// Dimensions of the picture.
const (
	left, right = 150, 1050
	top, row    = 92, 44
	tooth       = 34  // the height of the largest lease
	usage       = 130 // the height of the curve of the quota

	heldColor, admittedColor, returnedColor, straightColor, refusedColor = "#54aeff", "#0a3069", "#1a7f37", "#57606a", "#cf222e"
)

func x(at time.Duration) float64 { return left + float64(right-left)*float64(at)/float64(pictureSpan) }

// drawInstances draws how much each instance holds over time, and below that the usage of the quota.
func drawInstances(all []*instance) string {
	var b strings.Builder
	base := top + row*len(all) + 56 + usage
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1080 %d" font-family="system-ui, sans-serif" font-size="13" fill="#24292f">
<title>Ten instances that share a quota, and what each of them holds over time</title>
<style>
@media (prefers-color-scheme: dark) {
svg { fill: #f0f6fc } [fill="#ffffff"] { fill: #0d1117 } [fill="#57606a"] { fill: #9198a1 } [fill="#54aeff"] { fill: #1f6feb } [fill="#8250df"] { fill: #ab7df8 } [fill="#cf222e"] { fill: #f85149 }
[stroke="#d0d7de"] { stroke: #3d444d } [stroke="#57606a"] { stroke: #9198a1 } [stroke="#8250df"] { stroke: #ab7df8 } [stroke="#1a7f37"] { stroke: #3fb950 } [stroke="#cf222e"] { stroke: #f85149 } }
</style>
<rect width="1080" height="%d" fill="#ffffff"/>
<text x="24" y="30" font-size="18" font-weight="600">Ten instances share %d a minute: what each of them holds</text>
<text x="24" y="52" fill="#57606a">Each tooth is a lease: taken in one call, spent in process. At the end of a part of the window, the rest is returned.</text>
`, base+56, base+56, pictureQuota)
	for part := time.Second; part < pictureSpan; part += time.Second {
		fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#8250df" stroke-dasharray="5 4"/>`+"\n", x(part), x(part), top-12, base)
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle" fill="#8250df">a part ends</text>`+"\n", x(part), top-18)
	}
	var most int64
	for _, i := range all {
		for at := time.Duration(0); at < pictureSpan; at += time.Millisecond {
			held, _ := i.by(at)
			most = max(most, held)
		}
	}
	for k, i := range all {
		i.draw(&b, k+1, top+row*(k+1)-4, most)
	}
	drawUsage(&b, all, base)
	drawLegend(&b, base+42)
	b.WriteString("</svg>\n")
	return b.String()
}

// by returns what the instance held at a time, and what it had admitted by then. What a killed instance held stays
// charged.
func (i *instance) by(at time.Duration) (held, admitted int64) {
	for _, e := range i.events {
		if e.at > at || i.killed && e.at >= i.ends {
			break
		}
		switch e.what {
		case taken:
			held += e.units
		case spent:
			held -= e.units
			admitted += e.units
		case returned:
			held -= e.units
		case direct:
			admitted += e.units
		}
	}
	return held, admitted
}

// draw draws one instance, whose line is at y.
func (i *instance) draw(b *strings.Builder, number, y int, most int64) {
	fmt.Fprintf(b, `<text x="24" y="%d"><tspan font-weight="600">%d</tspan> <tspan fill="#57606a">%s</tspan></text>`+"\n", y-8, number, i.story)
	fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%d" y2="%d" stroke="#d0d7de"/>`+"\n", left, right, y, y)
	height := func(units int64) float64 { return float64(y) - float64(units)*tooth/float64(most) }
	ends := pictureSpan
	if i.killed {
		ends = i.ends
	}
	fmt.Fprintf(b, `<path fill="%s" d="M%.1f %d`, heldColor, x(0), y)
	i.drawTeeth(b, ends, height)
	fmt.Fprintf(b, `H%.1fV%dZ"/>`+"\n", x(ends), y)
	for _, e := range i.events {
		switch {
		case e.at >= ends:
		case e.what == returned:
			fmt.Fprintf(b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%.1f" stroke="%s" stroke-width="2.5"/>`+"\n",
				x(e.at), x(e.at), y, min(height(e.units), float64(y)-4), returnedColor)
		case e.what == direct:
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%d" r="2" fill="%s"/>`+"\n", x(e.at), y-4, straightColor)
		}
	}
	if i.killed {
		fmt.Fprintf(b, `<path d="M%.1f %dl10 -10m0 10l-10 -10" stroke="%s" stroke-width="2.5"/>`+"\n", x(ends), y-3, refusedColor)
		fmt.Fprintf(b, `<text x="%.1f" y="%d" fill="%s">what it held stays charged, and is never spent</text>`+"\n", x(ends)+18, y-5, refusedColor)
	}
	if n := len(i.refused); n > 0 {
		fmt.Fprintf(b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="%s" stroke-width="3"/>`+"\n",
			x(i.refused[0]), x(min(i.refused[n-1], pictureSpan)), y, y, refusedColor)
	}
}

// drawTeeth draws what an instance holds: where many units came or went together, and points in between.
func (i *instance) drawTeeth(b *strings.Builder, ends time.Duration, height func(units int64) float64) {
	const often = 12 * time.Millisecond
	var drawn time.Duration
	var before int64
	for _, e := range i.events {
		if e.at >= ends {
			break
		}
		held, _ := i.by(e.at)
		atOnce := e.what == taken || e.what == returned
		if atOnce || e.at-drawn >= often {
			fmt.Fprintf(b, "L%.1f %.1f", x(e.at), height(before))
			drawn = e.at
		}
		if atOnce {
			fmt.Fprintf(b, "V%.1f", height(held))
		}
		before = held
	}
}

// drawUsage draws what all instances were admitted and held, against the quota.
func drawUsage(b *strings.Builder, all []*instance, base int) {
	height := func(units int64) float64 { return float64(base) - float64(units)*usage/pictureQuota }
	var upper, lower strings.Builder
	for at := time.Duration(0); at <= pictureSpan; at += 10 * time.Millisecond {
		var held, admitted int64
		for _, i := range all {
			h, a := i.by(at)
			held, admitted = held+h, admitted+a
		}
		fmt.Fprintf(&upper, "L%.1f %.1f", x(at), height(admitted+held))
		fmt.Fprintf(&lower, "L%.1f %.1f", x(at), height(admitted))
	}
	fmt.Fprintf(b, `<path fill="%s" d="M%d %d%sL%d %dZ"/>`+"\n", heldColor, left, base, upper.String(), right, base)
	fmt.Fprintf(b, `<path fill="%s" d="M%d %d%sL%d %dZ"/>`+"\n", admittedColor, left, base, lower.String(), right, base)
	fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%d" y2="%d" stroke="%s"/>`+"\n", left, right, base-usage, base-usage, refusedColor)
	fmt.Fprintf(b, `<text x="%d" y="%d" fill="%s">the quota: %d</text>`+"\n", left, base-usage-6, refusedColor, pictureQuota)
	fmt.Fprintf(b, `<text x="24" y="%d">used</text>`+"\n", base-usage/2)
	for at := time.Duration(0); at <= pictureSpan; at += 500 * time.Millisecond {
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle" fill="#57606a">%.1f s</text>`+"\n", x(at), base+18, at.Seconds())
	}
}

func drawLegend(b *strings.Builder, y int) {
	for _, item := range []struct {
		x           int
		color, text string
	}{
		{24, heldColor, "held: charged, not spent yet"},
		{254, admittedColor, "admitted"},
		{364, returnedColor, "returned"},
		{484, straightColor, "admitted by the store: too few requests for a lease"},
		{866, refusedColor, "refused"},
	} {
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="12" height="12" fill="%s"/><text x="%d" y="%d">%s</text>`+"\n",
			item.x, y-11, item.color, item.x+18, y, item.text)
	}
}
