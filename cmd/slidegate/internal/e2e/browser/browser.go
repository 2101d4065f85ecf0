// Package browser opens pages in a real Chromium, for the tests of the program's pages. Only tests import it.
package browser

import (
	"context"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// Tab is one tab of a browser. Call Open to create it. It is not safe for concurrent use.
type Tab struct {
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
	testkit.Missing(t, "chromium", "Chromium is missing, so the page was not checked; make test installs it")
	return ""
}

// Open starts a browser for one test.
func Open(t *testing.T) *Tab {
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
	b := &Tab{t: t, ctx: ctx, console: make(chan chromedp.ConsoleMessage, 1000)}
	b.Do()
	go b.listen(chromedp.Console(ctx))
	return b
}

// Disconnect takes the browser's network away.
func (b *Tab) Disconnect() {
	b.t.Helper()
	Call(b, network.OverrideNetworkState, network.OverrideNetworkStateParams{Offline: true})
}

// listen records the console messages of the page, including violations of its security policy.
func (b *Tab) listen(messages iter.Seq2[chromedp.ConsoleMessage, error]) {
	for message, err := range messages {
		if err != nil {
			break // the browser was closed
		}
		b.console <- message
	}
	close(b.console)
}

// Do does the actions and fails the test if one fails.
func (b *Tab) Do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// Call sends a command of the browser's protocol.
func Call[P, R any](b *Tab, command cdp.Command[P, R], params P) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, command, params); err != nil {
		b.t.Fatal(err)
	}
}

// Eval returns the value of a JavaScript expression, or of the promise that it returns.
func Eval[T any](b *Tab, expression string) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("the browser could not evaluate %s: %v", expression, err)
	}
	return value
}

// Show opens an address in a window of the given size and scheme, light or dark.
func (b *Tab) Show(address string, width, height int64, scheme string) {
	b.t.Helper()
	b.Resize(width, height)
	Call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	b.Do(chromedp.Navigate(address))
	b.Settle()
}

// Resize changes the size of the window and waits for the layout.
func (b *Tab) Resize(width, height int64) {
	b.t.Helper()
	Call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600,
	})
	b.Settle()
}

// Settle waits until the page has been painted twice, after which the effects of a change of size are complete.
func (b *Tab) Settle() {
	b.t.Helper()
	Eval[bool](b, `new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
}

// Screenshot writes a picture of the whole page to the folder TEST_SCREENSHOTS, or to a temporary one.
func (b *Tab) Screenshot(name string) {
	b.t.Helper()
	b.write(name, chromedp.FullScreenshot(100))
}

// ScreenshotWindow is Screenshot for what the window shows, such as a dialog over the page.
func (b *Tab) ScreenshotWindow(name string) {
	b.t.Helper()
	b.write(name, chromedp.CaptureScreenshot())
}

func (b *Tab) write(name string, take chromedp.Action[[]byte]) {
	b.t.Helper()
	folder := os.Getenv("TEST_SCREENSHOTS")
	if folder == "" {
		folder = b.t.TempDir()
	} else if err := os.MkdirAll(folder, 0o755); err != nil {
		b.t.Fatal(err)
	}
	picture, err := chromedp.Run(b.ctx, take)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// CheckQuiet fails the test if the page logged a message.
func (b *Tab) CheckQuiet() {
	b.t.Helper()
	const last = "that was all"
	Eval[chromedp.Void](b, `console.log("`+last+`")`)
	for message := range b.console {
		if message.Text == last {
			break
		}
		b.t.Errorf("the page logged: %s: %s", message.Type, message.Text)
	}
}

// CheckWidth fails the test if the page scrolls sideways.
func (b *Tab) CheckWidth(width int64) {
	b.t.Helper()
	if got := Eval[int64](b, `document.documentElement.scrollWidth`); got > width {
		wide := Eval[[]string](b, fmt.Sprintf(`[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > %d)
			.map(e => e.tagName + "." + e.className).slice(0, 5)`, width))
		b.t.Errorf("at %d pixels the page is %d wide, because of %v", width, got, wide)
	}
}
