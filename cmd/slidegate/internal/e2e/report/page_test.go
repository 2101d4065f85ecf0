package report_test

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/report"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/report/reporttest"
)

func sample() *report.Document {
	d := report.Document(reporttest.Sample())
	return &d
}

// sizes holds the window sizes of a phone and a desktop.
var sizes = []struct {
	name          string
	width, height int64
}{{"phone", 360, 740}, {"desktop", 1280, 900}}

// TestBrowserLooks opens the page in both schemes and sizes: no messages are logged, nothing overflows, and everything is drawn.
func TestBrowserLooks(t *testing.T) {
	b := open(t)
	grounds := map[string]bool{}
	for _, scheme := range []string{"light", "dark"} {
		for _, size := range sizes {
			b.show(sample(), size.width, size.height, scheme)
			checkWidth(b, size.width)
			checkInk(b)
			b.screenshot(scheme + "-" + size.name)
			b.checkQuiet()
		}
		grounds[eval[string](b, `getComputedStyle(document.body).backgroundColor`)] = true
	}
	if len(grounds) != 2 {
		t.Errorf("light and dark have the same background: %v", grounds)
	}
}

// checkWidth fails the test if the page scrolls sideways.
func checkWidth(b *browser, width int64) {
	b.t.Helper()
	if got := eval[int64](b, `document.documentElement.scrollWidth`); got > width {
		wide := eval[[]string](b, fmt.Sprintf(`[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > %d)
			.map(e => e.tagName + "." + e.className).slice(0, 5)`, width))
		b.t.Errorf("at %d pixels the page is %d wide, because of %v", width, got, wide)
	}
}

// checkInk checks the pixels of every chart.
func checkInk(b *browser) {
	b.t.Helper()
	colours := eval[map[string]int](b, `Object.fromEntries([...document.querySelectorAll(".chart")].map(box => {
		const c = box.querySelector("canvas");
		const pixels = new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer);
		return [box.id, new Set(pixels).size];
	}))`)
	if len(colours) != 3 {
		b.t.Errorf("got %d charts, want 3: %v", len(colours), colours)
	}
	for id, n := range colours {
		if n < 40 { // an empty chart with its axes has fewer
			b.t.Errorf("chart %s is drawn in only %d colours", id, n)
		}
	}
}

// TestBrowserFigures compares the numbers on the page with the findings and with the text report.
func TestBrowserFigures(t *testing.T) {
	d := sample()
	b := open(t)
	b.show(d, 1280, 900, "light")
	f, l := d.Findings, d.Findings.Outcome.Limits[0]
	var written strings.Builder
	if err := report.Text(&written, d); err != nil {
		t.Fatal(err)
	}
	text := written.String()
	for selector, want := range map[string]struct {
		raw  int64
		line string // of the text report, with the number on the page for %s
	}{
		"data[data-figure=requests]":           {f.Traffic.Requests, "  requests           %s of 148 keys\n"},
		"data[data-figure=admitted]":           {f.Outcome.Admitted, "  admitted           %s ("},
		"data[data-figure=refused]":            {f.Outcome.Refused, "  refused            %s ("},
		"data[data-figure=keys_touched]":       {f.Outcome.KeysTouched, "  keys touched       %s (8.8 %)\n"},
		"data[data-figure=highest]":            {l.Highest.Units, "  highest in any 1m  %s of 100\n"},
		"data[data-figure=longest_lockout_us]": {int64(f.Outcome.Lockout.Length), "  longest lock-out   %s ("},
		"#s-limits [data-figure=highest]":      {l.Highest.Units, "  %s  "},
		"#s-limits [data-figure=state_bytes]":  {l.StateBytes, "  %s  "},
		"#s-limits [data-figure=live_keys]":    {l.LiveKeys, "  %s\n"},
	} {
		selector := `document.querySelector("` + selector + `")`
		if raw := eval[string](b, selector+".value || "+selector+".dataset.value"); raw != strconv.FormatInt(want.raw, 10) {
			t.Errorf("%s is %s on the page and %d in the findings", selector, raw, want.raw)
		}
		shown := eval[string](b, selector+".textContent")
		if line := strings.Replace(want.line, "%s", shown, 1); !strings.Contains(text, line) {
			t.Errorf("the page shows %s as %q, but the text has no %q", selector, shown, line)
		}
	}
	for _, o := range f.Compare {
		cells := eval[[]int64](b, fmt.Sprintf(`[...document.querySelectorAll('#s-compare [data-row=%q] td')].map(c => Number(c.dataset.value))`, o.Name))
		c := o.Limits[0]
		want := []int64{o.Admitted, o.KeysTouched, o.Refused, c.Highest.Units, c.WrongAdmitted, c.WrongRefused, c.StateBytes}
		if !reflect.DeepEqual(cells, want) {
			t.Errorf("the row of %s contains %v, want %v", o.Name, cells, want)
		}
	}
	for _, p := range f.Sweep.Points {
		cells := eval[[]int64](b, fmt.Sprintf(`[...document.querySelectorAll('#s-sweep [data-row="%d"] td[data-value]')].map(c => Number(c.dataset.value))`, p.Quota))
		if want := []int64{p.Refused, p.KeysTouched}; !reflect.DeepEqual(cells, want) {
			t.Errorf("the row of quota %d contains %v, want %v", p.Quota, cells, want)
		}
	}
	b.checkQuiet()
}

// series returns the second number of every point that a chart draws.
func series(b *browser, chart string, index int) []float64 {
	b.t.Helper()
	return eval[[]float64](b, fmt.Sprintf(`slidegateCharts[%q].getOption().series[%d].data.map(p => p[1])`, chart, index))
}

// TestBrowserCharts compares the charts with the findings, before and after they are used.
func TestBrowserCharts(t *testing.T) {
	d := sample()
	f := d.Findings
	b := open(t)
	b.show(d, 1280, 900, "light")
	admitted, refused := series(b, "timeline", 0), series(b, "timeline", 1)
	for i, bucket := range f.Timeline.Buckets {
		if admitted[i] != float64(bucket.Admitted) || refused[i] != float64(bucket.Refused) {
			t.Fatalf("bucket %d is drawn as %v and %v, want %+v", i, admitted[i], refused[i], bucket)
		}
	}
	for i, trail := range f.Worst {
		eval[chromedp.Void](b, fmt.Sprintf(`document.querySelectorAll("input[name=trail]")[%d].click()`, i))
		asked, got := series(b, "trail", 0), series(b, "trail", 1)
		for j := range trail.Requested {
			if asked[j] != float64(trail.Requested[j]) || got[j] != float64(trail.Admitted[j]) {
				t.Fatalf("%s: bucket %d is drawn as %v and %v, want %d and %d", trail.Key, j, asked[j], got[j], trail.Requested[j], trail.Admitted[j])
			}
		}
	}
	for i, p := range f.Sweep.Points {
		if got, want := series(b, "sweep", 0)[i], 100*float64(p.Refused)/float64(f.Traffic.Requests); got != want {
			t.Errorf("quota %d is drawn at %v %%, want %v", p.Quota, got, want)
		}
	}
	// On a phone, neighboring buckets are drawn as one bar, and none is lost.
	b.resize(360, 740)
	narrow := series(b, "timeline", 1)
	var sum int64
	for _, n := range narrow {
		sum += int64(n)
	}
	if len(narrow) >= len(refused) || sum != f.Outcome.Refused {
		t.Errorf("on a phone %d bars have %d refused, want fewer than %d bars and %d refused", len(narrow), sum, len(refused), f.Outcome.Refused)
	}
	b.checkQuiet()
}

// TestBrowserControls uses every control of the page.
func TestBrowserControls(t *testing.T) {
	b := open(t)
	b.show(sample(), 1280, 900, "light")
	zoom := func() string {
		return eval[string](b, `["timeline", "trail"].map(c => slidegateCharts[c].getOption().dataZoom[0]).map(z => z.start + "-" + z.end).join(" ")`)
	}
	click := func(selector string) { eval[chromedp.Void](b, `document.querySelector('`+selector+`').click()`) }
	click("[data-zoom=in]")
	if got := zoom(); got != "25-75 25-75" {
		t.Errorf("zoomed in, the charts show %s", got)
	}
	click("[data-zoom=right]")
	if got := zoom(); got != "50-100 50-100" {
		t.Errorf("moved right, the charts show %s", got)
	}
	click("[data-chart=timeline][data-series=admitted]")
	click("#theme") // from auto to light
	click("#theme") // and to dark
	drawn := eval[[]any](b, `(o => [o.legend[0].selected.admitted, o.series[1].itemStyle.color, o.dataZoom[0].start])(slidegateCharts.timeline.getOption())`)
	if fmt.Sprint(drawn) != "[false #e69f00 50]" {
		t.Errorf("after a change of theme the chart is %v, want the same series hidden, the same zoom, and the dark color", drawn)
	}
	tip := eval[string](b, `slidegateCharts.sweep.dispatchAction({type: "showTip", seriesIndex: 0, dataIndex: 7}), document.querySelector("#sweep .tip").innerText`)
	if !strings.Contains(tip, "100 requests per 1m") || !strings.Contains(tip, "24,489 (15.8 %)") {
		t.Errorf("the tooltip of quota 100 says %q", tip)
	}
	b.settle()
	b.checkQuiet()
}

// TestBrowserHostile opens a page with keys that contain markup and scripts.
func TestBrowserHostile(t *testing.T) {
	d := report.Document(reporttest.Hostile())
	b := open(t)
	for _, size := range sizes {
		b.show(&d, size.width, size.height, "light")
		checkWidth(b, size.width)
		for i := range d.Findings.Worst {
			eval[chromedp.Void](b, fmt.Sprintf(`document.querySelectorAll("input[name=trail]")[%d].click()`, i))
		}
		eval[chromedp.Void](b, `slidegateCharts.trail.dispatchAction({type: "showTip", seriesIndex: 0, dataIndex: 7})`)
		if eval[bool](b, `"pwned" in window`) {
			t.Error("a key was executed as a script")
		}
		shown := eval[[]string](b, `[...document.querySelectorAll("#s-top bdi.key")].map(k => k.textContent)`)
		if !slices.Equal(shown, reporttest.HostileRendered) {
			t.Errorf("the keys are shown as %q, want %q", shown, reporttest.HostileRendered)
		}
		b.checkQuiet()
	}
}

// TestBrowserWithoutScripts checks that without scripts the page still shows every figure and table, and no empty boxes for charts.
func TestBrowserWithoutScripts(t *testing.T) {
	d := sample()
	b := open(t)
	b.show(d, 360, 740, "light")
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.do(chromedp.Reload())
	checkWidth(b, 360)
	shown := eval[string](b, `document.body.innerText`)
	for _, k := range d.Findings.Outcome.TopRefused {
		if !strings.Contains(strings.ReplaceAll(shown, ",", ""), strconv.FormatInt(k.Refused, 10)) {
			t.Errorf("the page without scripts does not show the %d refusals of %s", k.Refused, k.Key)
		}
	}
	if !strings.Contains(shown, "The charts need JavaScript.") {
		t.Error("the page does not say that charts need scripts")
	}
	if n := eval[int](b, `[...document.querySelectorAll(".chart, .zoom, .legend")].filter(e => e.checkVisibility()).length`); n != 0 {
		t.Errorf("%d parts of charts are shown without scripts", n)
	}
}
