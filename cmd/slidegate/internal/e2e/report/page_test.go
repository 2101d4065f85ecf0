package report_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/e2e/browser"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/report"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/report/reporttest"
)

func sample() *report.Document {
	d := report.Document(reporttest.Sample())
	return &d
}

// open starts a browser that has no network.
func open(t *testing.T) *browser.Tab {
	t.Helper()
	b := browser.Open(t)
	b.Disconnect()
	return b
}

// show writes the document's page to a file and opens that.
func show(t *testing.T, b *browser.Tab, d *report.Document, width, height int64, scheme string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.html")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := report.HTML(file, d); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	b.Show("file://"+filepath.ToSlash(path), width, height, scheme)
}

// checkQuiet fails the test if the page logged a message or requested anything but itself.
func checkQuiet(t *testing.T, b *browser.Tab) {
	t.Helper()
	b.CheckQuiet()
	asked := browser.Eval[[]string](b, `performance.getEntriesByType("resource").map(e => e.name).filter(n => !n.startsWith("data:"))`)
	if len(asked) > 0 {
		t.Errorf("the page requested %q", asked)
	}
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
			show(t, b, sample(), size.width, size.height, scheme)
			b.CheckWidth(size.width)
			checkInk(t, b)
			b.Screenshot(scheme + "-" + size.name)
			checkQuiet(t, b)
		}
		grounds[browser.Eval[string](b, `getComputedStyle(document.body).backgroundColor`)] = true
	}
	if len(grounds) != 2 {
		t.Errorf("light and dark have the same background: %v", grounds)
	}
}

// checkInk checks the pixels of every chart.
func checkInk(t *testing.T, b *browser.Tab) {
	t.Helper()
	colours := browser.Eval[map[string]int](b, `Object.fromEntries([...document.querySelectorAll(".chart")].map(box => {
		const c = box.querySelector("canvas");
		const pixels = new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer);
		return [box.id, new Set(pixels).size];
	}))`)
	if len(colours) != 2 {
		t.Errorf("got %d charts, want 2: %v", len(colours), colours)
	}
	for id, n := range colours {
		if n < 40 { // an empty chart with its axes has fewer
			t.Errorf("chart %s is drawn in only %d colours", id, n)
		}
	}
}

// TestBrowserFigures compares the numbers on the page with the findings and with the text report.
func TestBrowserFigures(t *testing.T) {
	d := sample()
	b := open(t)
	show(t, b, d, 1280, 900, "light")
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
		if raw := browser.Eval[string](b, selector+".value || "+selector+".dataset.value"); raw != strconv.FormatInt(want.raw, 10) {
			t.Errorf("%s is %s on the page and %d in the findings", selector, raw, want.raw)
		}
		shown := browser.Eval[string](b, selector+".textContent")
		if line := strings.Replace(want.line, "%s", shown, 1); !strings.Contains(text, line) {
			t.Errorf("the page shows %s as %q, but the text has no %q", selector, shown, line)
		}
	}
	for _, o := range f.Compare {
		cells := browser.Eval[[]int64](b, fmt.Sprintf(`[...document.querySelectorAll('#s-compare [data-row=%q] td')].map(c => Number(c.dataset.value))`, o.Name))
		c := o.Limits[0]
		want := []int64{o.Admitted, o.KeysTouched, o.Refused, c.Highest.Units, c.WrongAdmitted, c.WrongRefused, c.StateBytes}
		if !reflect.DeepEqual(cells, want) {
			t.Errorf("the row of %s contains %v, want %v", o.Name, cells, want)
		}
	}
	for _, p := range f.Sweep.Points {
		cells := browser.Eval[[]int64](b, fmt.Sprintf(`[...document.querySelectorAll('#s-sweep [data-row="%d"] td[data-value]')].map(c => Number(c.dataset.value))`, p.Quota))
		if want := []int64{p.Refused, p.KeysTouched}; !reflect.DeepEqual(cells, want) {
			t.Errorf("the row of quota %d contains %v, want %v", p.Quota, cells, want)
		}
	}
	checkQuiet(t, b)
}

// series returns the second number of every point that a chart draws.
func series(b *browser.Tab, chart string, index int) []float64 {
	return browser.Eval[[]float64](b, fmt.Sprintf(`slidegateCharts[%q].getOption().series[%d].data.map(p => p[1])`, chart, index))
}

// TestBrowserCharts compares the charts with the findings, before and after they are used.
func TestBrowserCharts(t *testing.T) {
	d := sample()
	f := d.Findings
	b := open(t)
	show(t, b, d, 1280, 900, "light")
	admitted, refused := series(b, "timeline", 0), series(b, "timeline", 1)
	for i, bucket := range f.Timeline.Buckets {
		if admitted[i] != float64(bucket.Admitted) || refused[i] != float64(bucket.Refused) {
			t.Fatalf("bucket %d is drawn as %v and %v, want %+v", i, admitted[i], refused[i], bucket)
		}
	}
	for i, p := range f.Sweep.Points {
		if got, want := series(b, "sweep", 0)[i], 100*float64(p.Refused)/float64(f.Traffic.Requests); got != want {
			t.Errorf("quota %d is drawn at %v %%, want %v", p.Quota, got, want)
		}
	}
	// On a phone, neighboring buckets are drawn as one bar, and none is lost.
	b.Resize(360, 740)
	narrow := series(b, "timeline", 1)
	var sum int64
	for _, n := range narrow {
		sum += int64(n)
	}
	if len(narrow) >= len(refused) || sum != f.Outcome.Refused {
		t.Errorf("on a phone %d bars have %d refused, want fewer than %d bars and %d refused", len(narrow), sum, len(refused), f.Outcome.Refused)
	}
	checkQuiet(t, b)
}

// TestBrowserControls uses every control of the page.
func TestBrowserControls(t *testing.T) {
	b := open(t)
	show(t, b, sample(), 1280, 900, "light")
	zoom := func() string {
		return browser.Eval[string](b, `(z => z.start + "-" + z.end)(slidegateCharts.timeline.getOption().dataZoom[0])`)
	}
	click := func(selector string) {
		browser.Eval[chromedp.Void](b, `document.querySelector('`+selector+`').click()`)
	}
	click("[data-zoom=in]")
	if got := zoom(); got != "25-75" {
		t.Errorf("zoomed in, the chart shows %s", got)
	}
	click("[data-zoom=right]")
	if got := zoom(); got != "50-100" {
		t.Errorf("moved right, the chart shows %s", got)
	}
	click("[data-chart=timeline][data-series=admitted]")
	click("#theme") // from auto to light
	click("#theme") // and to dark
	drawn := browser.Eval[[]any](b, `(o => [o.legend[0].selected.admitted, o.series[1].itemStyle.color, o.dataZoom[0].start])(slidegateCharts.timeline.getOption())`)
	if fmt.Sprint(drawn) != "[false #e69f00 50]" {
		t.Errorf("after a change of theme the chart is %v, want the same series hidden, the same zoom, and the dark color", drawn)
	}
	tip := browser.Eval[string](b, `slidegateCharts.sweep.dispatchAction({type: "showTip", seriesIndex: 0, dataIndex: 7}), document.querySelector("#sweep .tip").innerText`)
	if !strings.Contains(tip, "100 requests per 1m") || !strings.Contains(tip, "24,489 (15.8 %)") {
		t.Errorf("the tooltip of quota 100 says %q", tip)
	}
	b.Settle()
	checkQuiet(t, b)
}

// TestBrowserHostile opens a page with keys that contain markup and scripts.
func TestBrowserHostile(t *testing.T) {
	d := report.Document(reporttest.Hostile())
	b := open(t)
	for _, size := range sizes {
		show(t, b, &d, size.width, size.height, "light")
		b.CheckWidth(size.width)
		browser.Eval[chromedp.Void](b, `slidegateCharts.timeline.dispatchAction({type: "showTip", seriesIndex: 0, dataIndex: 7})`)
		if browser.Eval[bool](b, `"pwned" in window`) {
			t.Error("a key was executed as a script")
		}
		shown := browser.Eval[[]string](b, `[...document.querySelectorAll("#s-top bdi.key")].map(k => k.textContent)`)
		if !slices.Equal(shown, reporttest.HostileRendered) {
			t.Errorf("the keys are shown as %q, want %q", shown, reporttest.HostileRendered)
		}
		checkQuiet(t, b)
	}
}

// TestBrowserWithoutScripts checks that without scripts the page still shows every figure and table, and no empty boxes for charts.
func TestBrowserWithoutScripts(t *testing.T) {
	d := sample()
	b := open(t)
	show(t, b, d, 360, 740, "light")
	browser.Call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.Do(chromedp.Reload())
	b.CheckWidth(360)
	shown := browser.Eval[string](b, `document.body.innerText`)
	for _, k := range d.Findings.Outcome.TopRefused {
		if !strings.Contains(strings.ReplaceAll(shown, ",", ""), strconv.FormatInt(k.Refused, 10)) {
			t.Errorf("the page without scripts does not show the %d refusals of %s", k.Refused, k.Key)
		}
	}
	if !strings.Contains(shown, "The charts need JavaScript.") {
		t.Error("the page does not say that charts need scripts")
	}
	if n := browser.Eval[int](b, `[...document.querySelectorAll(".chart, .zoom, .legend")].filter(e => e.checkVisibility()).length`); n != 0 {
		t.Errorf("%d parts of charts are shown without scripts", n)
	}
}

// TestBrowserAlignment checks that the bars of a column start at the same place, and that no label of an axis covers another.
func TestBrowserAlignment(t *testing.T) {
	d := sample()
	d.Findings.Outcome.TopRefused[0].Refused = 1 // a share of less than 0.01 %, the longest text beside a bar
	b := open(t)
	for _, size := range sizes {
		show(t, b, d, size.width, size.height, "light")
		starts := browser.Eval[map[string][]float64](b, `[...document.querySelectorAll("td.share svg")].reduce((all, bar) => {
			const cell = bar.closest("td"), column = cell.closest("section").id + " " + cell.cellIndex;
			all[column] = [...new Set(all[column]).add(bar.getBoundingClientRect().left)];
			return all;
		}, {})`)
		for column, places := range starts {
			if len(places) > 1 {
				t.Errorf("at %d pixels the bars of column %s start at %v, want one place", size.width, column, places)
			}
		}
		labels := browser.Eval[[][3]any](b, `slidegateCharts.timeline.getZr().storage.getDisplayList(true).filter(e => e.type === "tspan")
			.filter(e => /^\d\d:\d\d$|^\d+ Nov$/.test(e.style.text)).map(e => {
				const box = e.getBoundingRect().clone();
				box.applyTransform(e.transform);
				return [e.style.text, box.x, box.y, box.x + box.width, box.y + box.height];
			}).sort((a, b) => a[2] - b[2] || a[1] - b[1]).map((e, i, all) => [e[0], e[3], i + 1 < all.length && all[i + 1][2] === e[2] ? all[i + 1][1] : 1e9])`)
		if !slices.ContainsFunc(labels, func(l [3]any) bool { return l[0] == "14 Nov" }) {
			t.Errorf("at %d pixels the axis does not name its first day: %v", size.width, labels)
		}
		for _, l := range labels {
			if end, next := l[1].(float64), l[2].(float64); next < end+4 {
				t.Errorf("at %d pixels the label %v ends at %v, and the next one begins at %v", size.width, l[0], end, next)
			}
		}
	}
	checkQuiet(t, b)
}
