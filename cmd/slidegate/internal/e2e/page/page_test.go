package page_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/e2e/browser"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// sizes are those of a laptop and of a phone.
var sizes = []struct {
	name          string
	width, height int64
}{{"desktop", 1280, 800}, {"phone", 390, 844}}

// wait waits until a JavaScript expression is true.
func wait(t *testing.T, b *browser.Tab, expression string) {
	t.Helper()
	if !browser.Eval[bool](b, `new Promise(done => {
		const end = performance.now() + 10000;
		const look = () => { if (`+expression+`) done(true); else if (performance.now() > end) done(false); else setTimeout(look, 20); };
		look();
	})`) {
		b.CheckQuiet()
		t.Fatalf("after 10 s it is not true that %s; the page shows:\n%s", expression, browser.Eval[string](b, `document.body.innerText`))
	}
}

// show opens the page of a server and waits for its first document.
func show(t *testing.T, b *browser.Tab, f *fake, size int, scheme string) {
	t.Helper()
	b.Show(f.URL, sizes[size].width, sizes[size].height, scheme)
	wait(t, b, `!document.querySelector("#overview").hidden && document.querySelector("#hour canvas")`)
	b.Settle()
}

func click(b *browser.Tab, selector string) {
	browser.Eval[chromedp.Void](b, `document.querySelector(`+quote(selector)+`).click()`)
}

func quote(text string) string {
	quoted, _ := json.Marshal(text)
	return string(quoted)
}

// openFirst opens the panel of the most refused key, and shows the key.
func openFirst(t *testing.T, b *browser.Tab) {
	t.Helper()
	click(b, "#refused .keybutton")
	click(b, "#key .ask .primary")
	wait(t, b, `document.querySelectorAll("#key .limit .units").length === 2`)
}

// TestLooks opens the page in both schemes and sizes: nothing overflows, nothing is logged, and what an operator asks first is on the
// first screen.
func TestLooks(t *testing.T) {
	f := newFake(t)
	b := browser.Open(t)
	for _, scheme := range []string{"light", "dark"} {
		for n, size := range sizes {
			show(t, b, f, n, scheme)
			b.CheckWidth(size.width)
			b.Screenshot("page-" + scheme + "-" + size.name)
			openFirst(t, b)
			b.CheckWidth(size.width)
			b.Settle()
			b.ScreenshotWindow("page-" + scheme + "-" + size.name + "-key")
			click(b, "#key [data-action=raise]")
			b.ScreenshotWindow("page-" + scheme + "-" + size.name + "-raise")
		}
	}
	b.CheckQuiet()
	show(t, b, f, 0, "light")
	for _, selector := range []string{"#headline", "#figures", "#hour canvas", ".policy", "#refused tbody tr", "#nearest tbody tr"} {
		if bottom := browser.Eval[float64](b, `document.querySelector(`+quote(selector)+`).getBoundingClientRect().bottom`); bottom > 800 {
			t.Errorf("%s ends at %v, below the first screen", selector, bottom)
		}
	}
}

// TestAccessible has axe look at all views in both schemes: it finds nothing serious.
func TestAccessible(t *testing.T) {
	axe, err := os.ReadFile("testdata/axe/node_modules/axe-core/axe.min.js")
	if err != nil {
		testkit.Missing(t, "node", "axe-core is missing, so accessibility was not checked; make test installs it")
	}
	f := newFake(t)
	f.ruling = object{"kind": "limits", "limits": []any{"200/1m"}, "who": "ann", "why": "a migration", "policy": "api", "key": "x"}
	f.seen["instances"].([]object)[0]["without_store"] = true
	f.seen["instances"].([]object)[1]["restart_needed"] = []string{"store"}
	b := browser.Open(t)
	check := func(view string) {
		t.Helper()
		browser.Eval[chromedp.Void](b, string(axe)+`;0`)
		found := browser.Eval[[]string](b, `axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.filter(v => ["serious", "critical"].includes(v.impact))
			.map(v => v.id + ": " + v.help + ": " + v.nodes.slice(0, 4).map(n => n.html.slice(0, 160) + " " + n.any.concat(n.all).map(x => x.message).join("; ")).join(" | ")))`)
		for _, violation := range found {
			t.Errorf("%s: %s", view, violation)
		}
	}
	for _, scheme := range []string{"light", "dark"} {
		for n, size := range sizes {
			show(t, b, f, n, scheme)
			check(scheme + " " + size.name + " overview")
			click(b, "#refused .keybutton")
			wait(t, b, `!document.getAnimations().length`)
			check(scheme + " " + size.name + " masked key")
			click(b, "#key .ask .primary")
			wait(t, b, `document.querySelector("#key .limit")`)
			click(b, "#key [data-action=block]")
			wait(t, b, `!document.getAnimations().length`)
			check(scheme + " " + size.name + " key")
		}
	}
	f.change(func() { f.role = "operator" })
	b.Show(f.URL, 1280, 800, "light")
	wait(t, b, `!document.querySelector("#signin").hidden`)
	check("sign in")
}

// TestFigures compares what the page shows with sums made here: of the current minute and those before it.
func TestFigures(t *testing.T) {
	f := newFake(t)
	b := browser.Open(t)
	show(t, b, f, 0, "light")
	for _, minutes := range []int{1, 5, 60} {
		browser.Eval[chromedp.Void](b, fmt.Sprintf(`document.querySelector("[name=range][value='%d']").click()`, minutes))
		sums := map[string]int{}
		for _, p := range f.seen["policies"].([]object) {
			all := p["minutes"].([]object)
			for _, m := range all[max(0, len(all)-minutes-1):] {
				for _, name := range []string{"admitted", "refused", "shadow_refused", "without_store"} {
					sums[name] += m[name].(int)
				}
				sums["admitted"] += m["shadow_refused"].(int) // it was admitted all the same
			}
		}
		shown := browser.Eval[[]string](b, `[...document.querySelectorAll("#figures data")].slice(0, 4).map(d => d.textContent.replaceAll(",", ""))`)
		least := "\u2265\u00a0" // other instances may have decided more since they wrote
		want := []string{least + fmt.Sprint(sums["admitted"]), least + fmt.Sprint(sums["refused"]), least + fmt.Sprint(sums["shadow_refused"]), least + fmt.Sprint(sums["without_store"])}
		if !slices.Equal(shown, want) {
			t.Errorf("in %d minutes the figures are %v, want %v", minutes, shown, want)
		}
		first := browser.Eval[string](b, `document.querySelector("#refused tbody .strong").textContent.replaceAll(",", "")`)
		if want := fmt.Sprint(f.seen["keys"].(object)[fmt.Sprint(minutes)].(object)["refused"].([]object)[0]["refused"]); first != want {
			t.Errorf("in %d minutes the first key was refused %s times, want %s", minutes, first, want)
		}
	}
	if shown := browser.Eval[string](b, `[...document.querySelectorAll(".policyout")].map(p => p.textContent).join(";")`); shown != ";;;;120\u00a0leased, 5\u00a0in\u00a0the\u00a0proxy, 17\u00a0in\u00a0line" {
		t.Errorf("the policies show %s, want only 120 leased units, 5 requests and 17 in line of webhooks", shown)
	}
	// Choosing a policy shows only its keys.
	browser.Eval[chromedp.Void](b, `[...document.querySelectorAll(".policy")].find(p => p.innerText.startsWith("login")).querySelector("input").click()`)
	if got := browser.Eval[int](b, `document.querySelectorAll("#refused tbody tr").length`); got != 2 {
		t.Errorf("the policy login shows %d keys, want 2", got)
	}
	b.CheckQuiet()
}

// TestStoreAway shows a banner in words while an instance decides without the store, and removes it afterwards.
func TestStoreAway(t *testing.T) {
	f := newFake(t)
	b := browser.Open(t)
	show(t, b, f, 1, "light")
	away := func(is bool) { f.change(func() { f.seen["instances"].([]object)[1]["without_store"] = is }) }
	away(true)
	wait(t, b, `document.querySelector("[data-banner=store]")?.innerText.includes("Deciding without the store. web2:4090 does not reach it")`)
	b.ScreenshotWindow("page-away")
	away(false)
	wait(t, b, `!document.querySelector("[data-banner=store]")`)
	f.change(func() { f.seen["scope"], f.seen["why"] = "this", "the store memory is in this process" })
	wait(t, b, `document.querySelector("[data-banner=scope]")?.innerText.includes("the store memory is in this process")`)
	b.CheckWidth(390)
	// One that is alone cannot know whether others reach the store.
	f.change(func() {
		f.seen["instances"] = f.seen["instances"].([]object)[:1]
		f.seen["instances"].([]object)[0]["without_store"] = true
	})
	wait(t, b, `document.querySelector("[data-banner=store]")?.innerText.includes("Deciding without the store. This instance does not reach it")`)
	f.change(func() { f.streams = false })
	wait(t, b, `document.querySelector("#live").dataset.state === "lost"`)
}

// TestHiddenTab closes its stream, so that instances stop telling one another what they see, and opens it again when it is looked at.
func TestHiddenTab(t *testing.T) {
	f := newFake(t)
	b := browser.Open(t)
	show(t, b, f, 0, "light")
	hide := func(is bool) {
		browser.Eval[chromedp.Void](b, fmt.Sprintf(`Object.defineProperty(document, "hidden", {value: %t, configurable: true}); document.dispatchEvent(new Event("visibilitychange"))`, is))
	}
	testkit.Eventually(t, "there is one stream", func() bool { return f.open() == 1 })
	hide(true)
	testkit.Eventually(t, "there is no stream", func() bool { return f.open() == 0 })
	if got := browser.Eval[string](b, `document.querySelector("#live").innerText`); got != "Paused" {
		t.Errorf("a hidden page says %q, want Paused", got)
	}
	hide(false)
	wait(t, b, `document.querySelector("#live").innerText === "Live"`)
	testkit.Eventually(t, "there is one stream again", func() bool { return f.open() == 1 })
	b.CheckQuiet()
}

// TestChangesAKey blocks, raises, resets and frees a key, each with a reason, and sees the effect within two seconds.
func TestChangesAKey(t *testing.T) {
	f := newFake(t)
	b := browser.Open(t)
	show(t, b, f, 0, "light")
	click(b, "#refused .keybutton")
	if text := browser.Eval[string](b, `document.body.innerText`); strings.Contains(text, "acme-batch-export") {
		t.Error("a key is shown before it was asked for")
	}
	if got := f.lastRequest(); got != "" {
		t.Errorf("opening the panel sent %s, want nothing", got)
	}
	click(b, "#key .ask .primary")
	wait(t, b, `document.querySelector("#key-title").textContent === "acme-batch-export" && document.querySelectorAll("#key .limit").length === 2`)
	if got, want := f.lastRequest(), `/v1/seen/key {"id":"9f2c000000000000","policy":"api"}`; got != want {
		t.Errorf("the key was asked for by %s, want %s", got, want)
	}
	act := func(action, fill, want, effect string) {
		t.Helper()
		click(b, "#key [data-action="+action+"]")
		click(b, "#key .actionform [type=submit]") // without a reason
		if got := f.lastRequest(); strings.Contains(got, "/v1/r") && !strings.Contains(got, "because") {
			t.Errorf("%s was sent without a reason: %s", action, got)
		}
		browser.Eval[chromedp.Void](b, fill+`; document.querySelector("#key [name=why]").value = " because of `+action+` "`)
		began := time.Now()
		click(b, "#key .actionform [type=submit]")
		wait(t, b, effect)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("the effect of %s was seen after %v, want at most 2s", action, took)
		}
		if got := f.lastRequest(); got != want {
			t.Errorf("%s sent %s, want %s", action, got, want)
		}
	}
	if !browser.Eval[bool](b, `document.querySelector("#key [data-action=end]").hidden`) {
		t.Error("a key without a ruling has a button that ends it")
	}
	act("block", `0`, `/v1/rulings {"for":"1h","key":"acme-batch-export","kind":"block","policy":"api","who":"operators’ page","why":"because of block"}`,
		`document.querySelector("#key .ruling").innerText.startsWith("Blocked, until ") && document.querySelector("#key .history li").innerText.includes("because of block")`)
	act("end", `0`, `/v1/rulings/clear {"key":"acme-batch-export","policy":"api","who":"operators’ page","why":"because of end"}`, `document.querySelector("#key .ruling").hidden`)
	act("raise", `document.querySelector("#key [name=limits]").value = "200/1m , 9000/1h"; document.querySelector("#key [name=for]").value = "24h"`,
		`/v1/rulings {"for":"24h","key":"acme-batch-export","kind":"limits","limits":["200/1m","9000/1h"],"policy":"api","who":"operators’ page","why":"because of raise"}`,
		`document.querySelector("#key .limit h3").innerText === "200/1m"`)
	act("reset", `0`, `/v1/reset {"key":"acme-batch-export","policy":"api","who":"operators’ page","why":"because of reset"}`, `document.querySelector("#key .limitstate").innerText === "200 of 200 free"`)
	click(b, "#key .panelhead button")
	if html := browser.Eval[string](b, `document.documentElement.outerHTML`); strings.Contains(html, "acme-batch-export") {
		t.Error("the whole key is still in the page after its panel was closed")
	}
	b.CheckQuiet()
}

// TestWindowSlides compares the drawing with the units that are stored: what becomes free is drawn and counted down.
func TestWindowSlides(t *testing.T) {
	f := newFake(t)
	f.limits = []object{{"text": "10/20s", "name": "", "quota": int64(10), "algorithm": "hard cap", "window_us": 20_000_000, "form": "log", "holds": []object{}, "retry_after_us": 0,
		"units": []object{
			{"from": int64(-12_000_000), "to": int64(-12_000_000), "units": int64(6), "frees": int64(8_000_000)},
			{"from": int64(-5_000_000), "to": int64(-5_000_000), "units": int64(4), "frees": int64(15_000_000)},
		}}}
	b := browser.Open(t)
	show(t, b, f, 0, "light")
	f.change(func() { f.began = time.Now() })
	click(b, "#refused .keybutton")
	click(b, "#key .ask .primary")
	wait(t, b, `document.querySelectorAll("#key .next li").length === 2`)
	edge := func() float64 { // where the unit that becomes free next is drawn, in thousandths of the window
		return browser.Eval[float64](b, `Number(document.querySelector("#key .soon").getAttribute("d").match(/M([\d.]+)/)[1])`)
	}
	if first, charged := edge(), 400.0; first > charged || first < charged/2 {
		t.Errorf("the first unit is drawn at %v, want a little less than %v", first, charged)
	}
	if limit := browser.Eval[string](b, `document.querySelector("#key .limit").innerText`); !strings.Contains(limit, "0 of 10 free") || !strings.Contains(limit, "+6 in ") || !strings.Contains(limit, "+4 in ") {
		t.Errorf("the limit is shown as %q", limit)
	}
	// Between two answers, it slides too.
	f.change(func() { f.away = true })
	wait(t, b, `document.querySelector("#key .problem").innerText === "the store does not answer"`)
	before := edge()
	wait(t, b, fmt.Sprintf(`Number(document.querySelector("#key .soon").getAttribute("d").match(/M([\d.]+)/)[1]) < %v - 20`, before))
	f.change(func() { f.away = false })
	wait(t, b, `document.querySelector("#key .limitstate").innerText === "6 of 10 free" && document.querySelectorAll("#key .next li").length === 1`)
	wait(t, b, `document.querySelector("#key .limitstate").innerText === "10 of 10 free" && document.querySelector("#key .next").innerText === ""`)
}

// TestFindsAKey opens the panel of a key that the operator writes, with a token bucket, which fills between two answers, and units that are held for
// longer than the window.
func TestFindsAKey(t *testing.T) {
	f := newFake(t)
	f.limits = []object{
		{"text": "10/10s token-bucket burst=20", "quota": int64(10), "capacity": int64(20), "algorithm": "token-bucket", "window_us": 10_000_000, "form": "bucket", "holds": []object{},
			"units": []object{{"from": int64(0), "to": int64(0), "units": int64(20), "frees": int64(20_000_000)}}},
		{"text": "5/1s hold=1h", "quota": int64(5), "algorithm": "default", "window_us": 1_000_000, "form": "log", "units": []object{},
			"holds": []object{{"id": "ab12", "units": int64(2), "ends": time.Now().Add(time.Hour).UnixMicro()}}},
	}
	b := browser.Open(t)
	show(t, b, f, 0, "light")
	f.change(func() { f.began = time.Now() })
	click(b, "#find")
	b.Do(chromedp.KeyEvent("header:X-User:bob" + kb.Enter))
	wait(t, b, `document.querySelectorAll("#key .limit").length === 2 && !document.querySelector("#finder").open`)
	if shown := browser.Eval[string](b, `document.querySelector("#key").innerText`); !strings.Contains(shown, "header:X-User:bob") || strings.Contains(shown, "null") || strings.Contains(shown, "NaN") {
		t.Errorf("the panel shows %q", shown)
	}
	wait(t, b, `/^[1-9] of 20 free$/.test(document.querySelector("#key .limitstate").innerText)`)
	if held := browser.Eval[string](b, `document.querySelectorAll("#key .limit")[1].querySelector(".holds").innerText`); !strings.HasPrefix(held, "2 until 59m") && !strings.HasPrefix(held, "2 until 1h") {
		t.Errorf("the units that are held are shown as %q", held)
	}
	if got := browser.Eval[string](b, `document.querySelectorAll("#key .limitstate")[1].innerText`); got != "3 of 5 free" {
		t.Errorf("with 2 of 5 units held, the panel shows %q", got)
	}
	b.ScreenshotWindow("page-bucket")
	b.CheckQuiet()
}

// TestToken signs in by keyboard alone. The token is sent as a header, and is nowhere in the browser's storage or address. A viewer finds no buttons
// that change something.
func TestToken(t *testing.T) {
	f := newFake(t)
	f.role = "viewer"
	b := browser.Open(t)
	b.Show(f.URL, 1280, 800, "light")
	wait(t, b, `document.activeElement.id === "token"`)
	keys := func(text string) { b.Do(chromedp.KeyEvent(text)) }
	keys("not the token" + kb.Enter)
	wait(t, b, `document.querySelector("#signin-problem").innerText === "the token is not valid here; an admin token is required"`)
	b.ScreenshotWindow("page-signin")
	browser.Eval[chromedp.Void](b, `document.querySelector("#token").select()`)
	keys(token + kb.Enter)
	wait(t, b, `document.querySelector("#signin").hidden && document.querySelector("#hour canvas")`)
	if got, want := f.sentTokens(), []string{"", "Bearer " + token, "Bearer not the token"}; !slices.Equal(got, want) {
		t.Errorf("the tokens %q were sent, want %q", got, want)
	}
	kept := browser.Eval[string](b, `JSON.stringify([location.href, document.cookie, {...localStorage}, {...sessionStorage}, history.state, document.documentElement.outerHTML, document.querySelector("#token").value])`)
	if strings.Contains(kept, token) {
		t.Error("the page keeps the token where others can find it")
	}
	keyboard(t, b, "#refused .keybutton")
	keys(kb.Enter)
	wait(t, b, `document.activeElement.innerText === "Show this key"`)
	keys(kb.Enter)
	wait(t, b, `document.querySelectorAll("#key .limit").length === 2`)
	if n := browser.Eval[int](b, `document.querySelectorAll("#key [data-action], #key form").length`); n != 0 {
		t.Errorf("a viewer sees %d ways to change a key, want none", n)
	}
	keys(kb.Escape)
	wait(t, b, `!document.querySelector("#key").open && document.activeElement.matches("#refused .keybutton")`)

	f.change(func() { f.role = "operator" })
	browser.Eval[chromedp.Void](b, `document.querySelector("#leave").focus()`)
	keys(kb.Enter)
	wait(t, b, `document.activeElement.id === "token" && document.querySelector("#overview").hidden`)
	keys(token + kb.Enter)
	wait(t, b, `document.querySelector("#signin").hidden && document.querySelector("#hour canvas")`)
	keyboard(t, b, "#refused .keybutton")
	keys(kb.Enter)
	wait(t, b, `document.activeElement.innerText === "Show this key"`)
	keys(kb.Enter)
	wait(t, b, `document.querySelector("#key [data-action=block]")`)
	keyboard(t, b, "#key [data-action=block]")
	keys(kb.Enter)
	keyboard(t, b, "#key [name=why]")
	keys("by keyboard" + kb.Enter)
	wait(t, b, `document.querySelector("#key .ruling")?.innerText.includes("by keyboard")`)
}

// keyboard presses Tab until an element has the focus, and checks that one can see that.
func keyboard(t *testing.T, b *browser.Tab, selector string) {
	t.Helper()
	for range 60 {
		b.Do(chromedp.KeyEvent(kb.Tab))
		if browser.Eval[bool](b, `document.activeElement.matches(`+quote(selector)+`)`) {
			if !browser.Eval[bool](b, `getComputedStyle(document.activeElement).outlineStyle !== "none"`) {
				t.Errorf("%s has the focus, and does not show it", selector)
			}
			return
		}
	}
	t.Fatalf("Tab does not lead to %s", selector)
}

// TestHostile shows keys, names and reasons that contain markup, control characters and marks of direction, as text.
func TestHostile(t *testing.T) {
	f := newFake(t)
	var keys, policies []object
	for n, text := range hostile {
		id := fmt.Sprint("h", n)
		f.keys[id] = text
		keys = append(keys, object{"policy": text, "id": id, "masked": text, "admitted": 1, "refused": 100 - n, "by": text, "limit": text, "share": .9, "routes": []string{text, text}, "instances": []string{text}})
		policies = append(policies, object{"name": text, "limits": []string{text}, "minutes": []object{{"at": f.seen["now"], "admitted": 5, "refused": 9 - n}}})
	}
	f.seen["keys"] = object{"5": object{"refused": keys, "nearest": keys}}
	f.seen["policies"] = policies
	instance := f.seen["instances"].([]object)[0]
	for _, name := range []string{"name", "version", "config", "health", "store"} {
		instance[name] = hostile[0] + hostile[3]
	}
	instance["restart_needed"] = hostile
	f.seen["scope"], f.seen["why"] = "this", strings.Join(hostile, " ")
	f.history = []object{{"kind": hostile[1], "who": hostile[3], "why": hostile[2], "at": hostile[0]}}
	f.ruling = object{"kind": "limits", "limits": []any{hostile[0]}, "who": hostile[1], "why": hostile[3], "until": hostile[1]}
	b := browser.Open(t)
	for n, size := range sizes {
		show(t, b, f, n, "light")
		click(b, "#refused .more")
		b.CheckWidth(size.width)
		for i := range hostile {
			browser.Eval[chromedp.Void](b, fmt.Sprintf(`document.querySelectorAll("#refused .keybutton")[%d].click(); document.querySelector("#key .ask .primary").click()`, i))
			wait(t, b, `document.querySelector("#key .limit")`)
			b.CheckWidth(size.width)
			if over := browser.Eval[int](b, `document.querySelector("#key").scrollWidth - document.querySelector("#key").clientWidth`); over > 0 {
				t.Errorf("the panel of key %d scrolls sideways by %d", i, over)
			}
			click(b, "#key .panelhead button")
		}
		if browser.Eval[bool](b, `"pwned" in window || document.images.length > 0 || document.querySelectorAll("script").length > 1`) {
			t.Error("a key became markup")
		}
		text := browser.Eval[string](b, `document.body.textContent`)
		if i := strings.IndexFunc(text, func(r rune) bool {
			return r < ' ' && r != '\n' && r != '\t' || r >= 0x200e && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
		}); i >= 0 {
			t.Errorf("a control character is shown unescaped: %q", text[max(0, i-20):i+20])
		}
		if !strings.Contains(text, `\u202e`) || !strings.Contains(text, `\x1b[31m`) {
			t.Error("control characters are hidden instead of shown")
		}
	}
	b.CheckQuiet()
}

// TestFirstPaint adds up what a browser loads before the page shows something, and checks that all of it comes from the listener, without
// cookies, under a policy that runs no other script.
func TestFirstPaint(t *testing.T) {
	f := newFake(t)
	sum := 0
	for _, path := range []string{"/", "/page/page.js", "/page/page.css"} {
		r, _ := http.NewRequest(http.MethodGet, f.URL+path, nil)
		r.Header.Set("Accept", "text/html,*/*;q=0.8")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		sum += len(body)
		policy := response.Header.Get("Content-Security-Policy")
		if !strings.Contains(policy, "script-src 'self'") || !strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s has the policy %q", path, policy)
		}
		if response.Header.Get("Set-Cookie") != "" {
			t.Errorf("%s sets a cookie", path)
		}
	}
	if sum > 150<<10 {
		t.Errorf("the page has %d bytes, want at most 150 kB", sum)
	}
	b := browser.Open(t)
	show(t, b, f, 0, "light")
	for _, name := range browser.Eval[[]string](b, `performance.getEntriesByType("resource").map(e => e.name)`) {
		if !strings.HasPrefix(name, f.URL) && !strings.HasPrefix(name, "data:") {
			t.Errorf("the page requested %s", name)
		}
	}
}

// TestVendored compares the checksums in the README with the files.
func TestVendored(t *testing.T) {
	folder := filepath.Join("..", "..", "listener", "page")
	readme, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"uPlot.esm.js", "uPlot.min.css"} {
		content, err := os.ReadFile(filepath.Join(folder, "uplot", name))
		if err != nil {
			t.Fatal(err)
		}
		if sum := fmt.Sprintf("%x", sha256.Sum256(content)); !strings.Contains(string(readme), "| sha256 of `"+name+"` | `"+sum+"` |") {
			t.Errorf("README.md does not have the checksum %s of %s", sum, name)
		}
	}
}
