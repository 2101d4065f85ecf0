package report_test

import (
	"context"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/report"
)

// browser is one tab of a real Chromium that has no network.
type browser struct {
	t       *testing.T
	ctx     context.Context
	console chan chromedp.ConsoleMessage
}

// chromium returns the path of the browser. Without one the test is skipped, unless TEST_REQUIRE names chromium.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "headless-shell"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if slices.Contains(strings.Split(os.Getenv("TEST_REQUIRE"), ","), "chromium") {
		t.Fatal("Chromium is missing, and TEST_REQUIRE names it; make test installs it")
	}
	t.Skip("SKIPPED: Chromium is missing, so the page was not checked; make test installs it")
	return ""
}

// open starts a browser for one test.
func open(t *testing.T) *browser {
	t.Helper()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(chromium(t)), chromedp.UserDataDir(t.TempDir()), chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("disable-dev-shm-usage", true))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	ctx, cancelTime := context.WithTimeout(context.Background(), 90*time.Second)
	ctx, cancelProcess := chromedp.NewExecAllocator(ctx, options...)
	ctx, cancelTab := chromedp.NewContext(ctx)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits for the process to end, so that its folder can be removed
		cancelTab()
		cancelProcess()
		cancelTime()
	})
	b := &browser{t: t, ctx: ctx, console: make(chan chromedp.ConsoleMessage, 1000)}
	b.do()
	go b.listen(chromedp.Console(ctx))
	call(b, network.OverrideNetworkState, network.OverrideNetworkStateParams{Offline: true})
	return b
}

// listen records the console messages of the page, including violations of its security policy.
func (b *browser) listen(messages iter.Seq2[chromedp.ConsoleMessage, error]) {
	for message, err := range messages {
		if err != nil {
			break // the browser was closed
		}
		b.console <- message
	}
	close(b.console)
}

// do does the actions and fails the test if one fails.
func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// call sends a command of the browser's protocol.
func call[P, R any](b *browser, command cdp.Command[P, R], params P) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, command, params); err != nil {
		b.t.Fatal(err)
	}
}

// eval returns the value of a JavaScript expression, or of the promise that it returns.
func eval[T any](b *browser, expression string) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("the browser could not evaluate %s: %v", expression, err)
	}
	return value
}

// show writes the document's page to a file and opens that, in a window of the given size and scheme.
func (b *browser) show(d *report.Document, width, height int64, scheme string) {
	b.t.Helper()
	path := filepath.Join(b.t.TempDir(), "report.html")
	file, err := os.Create(path)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := report.HTML(file, d); err != nil {
		b.t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		b.t.Fatal(err)
	}
	b.resize(width, height)
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	b.do(chromedp.Navigate("file://" + filepath.ToSlash(path)))
	b.settle()
}

// resize changes the size of the window and waits for the layout.
func (b *browser) resize(width, height int64) {
	b.t.Helper()
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600,
	})
	b.settle()
}

// settle waits until the page has been painted twice, after which the effects of a change of size are complete.
func (b *browser) settle() {
	b.t.Helper()
	eval[bool](b, `new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
}

// screenshot writes a picture of the whole page to the folder TEST_SCREENSHOTS, or to a temporary one.
func (b *browser) screenshot(name string) {
	b.t.Helper()
	folder := os.Getenv("TEST_SCREENSHOTS")
	if folder == "" {
		folder = b.t.TempDir()
	} else if err := os.MkdirAll(folder, 0o755); err != nil {
		b.t.Fatal(err)
	}
	picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// checkQuiet fails the test if the page logged a message or requested anything but itself.
func (b *browser) checkQuiet() {
	b.t.Helper()
	const last = "that was all"
	eval[chromedp.Void](b, `console.log("`+last+`")`)
	for message := range b.console {
		if message.Text == last {
			break
		}
		b.t.Errorf("the page logged: %s: %s", message.Type, message.Text)
	}
	asked := eval[[]string](b, `performance.getEntriesByType("resource").map(e => e.name).filter(n => !n.startsWith("data:"))`)
	if len(asked) > 0 {
		b.t.Errorf("the page requested %q", asked)
	}
}
