package page_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/e2e/browser"
)

// row is a row of a list of keys.
const row = `(list, key) => { const r = [...document.querySelectorAll("#" + list + " tbody tr")].find(r => r.key.masked === key); return [...r.children].map(c => c.innerText.replaceAll("\u00a0", " ").replaceAll("\n", " | ")).join(" ; "); }`

// TestKeysSayWhatRefusedThem: all causes are there, the main one first; what shadow mode would have refused was admitted; and keys whose masks look alike
// can be told apart.
func TestKeysSayWhatRefusedThem(t *testing.T) {
	f := newFake(t)
	b := browser.Open(t)
	show(t, b, f, 0, "light")
	for key, want := range map[string]string{ // five times the counts of a minute
		"ac…t": "ac…t #9f2c | api · GET /v1/orders ; 710 ; 485 ; 100/1m (650), a ruling (60)",
		"cr…7": "cr…7 #b9e3 | search · GET /search ; 0 ; 105 ; 20/1s in shadow (90)",
	} {
		browser.Eval[chromedp.Void](b, `document.querySelector("#refused .more").innerText.startsWith("Show all") && document.querySelector("#refused .more").click()`)
		if got := browser.Eval[string](b, `(`+row+`)("refused", "`+key+`")`); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := browser.Eval[string](b, `document.querySelector("#verdict").innerText`); !strings.Contains(got, "Most refused: ac…t #9f2c under api") || !strings.HasSuffix(got, ", mostly by 100/1m.") {
		t.Errorf("got %q, want the key and its main cause", got)
	}
	// The policies' nearest keys are those of the list beside them.
	if got := browser.Eval[string](b, `[...document.querySelectorAll(".policy")].map(p => p.innerText.match(/nearest\s*\d+/)?.[0].replaceAll("\u00a0", " ")).filter(Boolean).sort().join(", ")`); got != "nearest 80, nearest 86, nearest 96" {
		t.Errorf("got %q, want the shares of the nearest keys that were not refused", got)
	}
	// A policy in shadow mode has decided, and refused nothing.
	browser.Eval[chromedp.Void](b, `[...document.querySelectorAll(".policy")].find(p => p.innerText.startsWith("search")).querySelector("input").click()`)
	if got := browser.Eval[string](b, `document.querySelector("#headline").innerText`); got != "Nothing is refused" {
		t.Errorf("got %q, want that nothing is refused", got)
	}
	f.change(func() {
		for _, m := range f.seen["policies"].([]object)[2]["minutes"].([]object) {
			m["shadow_refused"], m["admitted"] = m["shadow_refused"].(int)+m["admitted"].(int), 0
		}
	})
	wait(t, b, `document.querySelector("#figures .figure:nth-child(3) data").innerText.length > 5`)
	if got := browser.Eval[string](b, `document.querySelector("#headline").innerText`); got != "Nothing is refused" {
		t.Errorf("a policy that only refuses in shadow mode: got %q, want that nothing is refused", got)
	}
	b.CheckQuiet()
}

// TestRaiseOfAPlan: a key is shown under its own plan, and its limits are proposed doubled; where they may be others, nothing is proposed.
func TestRaiseOfAPlan(t *testing.T) {
	f := newFake(t)
	pro := sampleLimits()[:1]
	pro[0]["text"], pro[0]["quota"] = "1000/1m", int64(1000)
	f.plans = map[string][]object{"pro": pro}
	b := browser.Open(t)
	proposed := func() string {
		click(b, "#key [data-action=raise]")
		return browser.Eval[string](b, `document.querySelector("#key [name=limits]").value`)
	}
	for _, x := range []struct{ plan, limit, shown, want string }{
		{"", "100/1m", "100/1m", "200/1m, 10000/1h"}, {"pro", "1000/1m", "1000/1m", "2000/1m"}, {"", "1000/1m", "100/1m", ""},
	} {
		f.change(func() {
			for _, keys := range f.seen["keys"].(object) {
				first := keys.(object)["refused"].([]object)[0]
				first["plan"], first["limit"], first["causes"] = x.plan, x.limit, []object{{"by": "limits", "limit": x.limit, "refused": 5}}
			}
		})
		show(t, b, f, 0, "light")
		click(b, "#refused .keybutton")
		click(b, "#key .ask .primary")
		wait(t, b, `document.querySelector("#key .limit h3")?.innerText === "`+x.shown+`"`)
		if got := proposed(); got != x.want {
			t.Errorf("plan %q, near %s: %q is proposed, want %q", x.plan, x.limit, got, x.want)
		}
	}
	// Which plan a key has that was found by its text is not known, if requests choose it.
	find := func() {
		show(t, b, f, 0, "light")
		click(b, "#find")
		b.Do(chromedp.KeyEvent("ann" + kb.Enter))
		wait(t, b, `document.querySelector("#key .limit")`)
	}
	if find(); proposed() != "200/1m, 10000/1h" {
		t.Error("the limits of a key that was found are not proposed")
	}
	f.change(func() { f.seen["policies"].([]object)[0]["varies"] = true })
	if find(); proposed() != "" {
		t.Error("limits are proposed that may not be those of the key")
	}
	browser.Eval[chromedp.Void](b, `const form = document.querySelector("#key .actionform form").elements; form.limits.value = "unlimited"; form.for.value = ""; form.why.value = "a test"`)
	click(b, "#key .actionform [type=submit]")
	wait(t, b, `document.querySelector("#key .result").innerText.startsWith("Limits changed")`)
	if got, want := f.lastRequest(), `/v1/rulings {"key":"ann","kind":"unlimited","policy":"api","who":"operators’ page","why":"a test"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	// A key that is blocked has no limits: those of its policy are proposed, unless requests choose others.
	f.change(func() {
		f.ruling, f.seen["policies"].([]object)[0]["varies"] = object{"kind": "block", "policy": "api", "key": "ann", "who": "eve"}, false
	})
	show(t, b, f, 0, "light")
	click(b, "#find")
	b.Do(chromedp.KeyEvent("ann" + kb.Enter))
	wait(t, b, `document.querySelector("#key .about").innerText.includes("without the ruling: 100/1m")`)
	if got := proposed(); got != "200/1m" {
		t.Errorf("of a blocked key %q is proposed, want 200/1m", got)
	}
	b.CheckQuiet()
}

// TestRulingAboutAPrefix: a client's view names the prefix whose ruling it is under, and ends that; the view of the prefix shows its ruling, and no problem.
func TestRulingAboutAPrefix(t *testing.T) {
	f := newFake(t)
	f.ruling = object{"kind": "block", "policy": "api", "key": "203.0.113.0/24", "who": "eve", "why": "abuse", "until": "2026-01-02T05:10:00Z"}
	f.history = []object{{"policy": "api", "key": "203.0.113.0/24", "kind": "block", "at": "2026-01-02T02:41:07Z", "who": "eve", "why": "abuse"}}
	b := browser.Open(t)
	find := func(text string) {
		show(t, b, f, 0, "light")
		click(b, "#find")
		b.Do(chromedp.KeyEvent(text + kb.Enter))
		wait(t, b, `document.querySelector("#key .ruling")?.innerText`)
	}
	find("203.0.113.7")
	ruling := browser.Eval[string](b, `document.querySelector("#key .ruling").innerText`)
	if !strings.HasPrefix(ruling, "Blocked for 203.0.113.0/24, until 2 Jan 2026") || !strings.Contains(ruling, "UTC") && !strings.Contains(ruling, "GMT") {
		t.Errorf("got %q, want the prefix, and an end with a date and a zone", ruling)
	}
	if got := browser.Eval[string](b, `document.querySelector("#key .history b").innerText`); got != "Blocked for 203.0.113.0/24" {
		t.Errorf("the history has %q, want the prefix", got)
	}
	if got := browser.Eval[string](b, `document.querySelector("#key [data-action=end]").innerText`); got != "End the ruling for 203.0.113.0/24" {
		t.Errorf("the button says %q", got)
	}
	click(b, "#key [data-action=end]")
	browser.Eval[chromedp.Void](b, `document.querySelector("#key [name=why]").value = "it was a test"`)
	click(b, "#key .actionform [type=submit]")
	wait(t, b, `document.querySelector("#key .ruling").hidden`)
	if got, want := f.lastRequest(), `/v1/rulings/clear {"key":"203.0.113.0/24","policy":"api","who":"operators’ page","why":"it was a test"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	f.change(func() {
		f.prefix, f.ruling = true, object{"kind": "block", "policy": "api", "key": "203.0.113.0/24", "who": "eve", "why": "abuse"}
	})
	find("203.0.113.0/24")
	if shown := browser.Eval[string](b, `document.querySelector("#key").innerText`); !strings.Contains(shown, "a prefix: the addresses in it have keys and counts of their own") || !strings.Contains(shown, "Blocked, until it is ended") || strings.Contains(shown, "Reset\n") {
		t.Errorf("got %q, want the ruling about the prefix, and no reset", shown)
	}
	if problem := browser.Eval[string](b, `document.querySelector("#key .problem").innerText`); problem != "" {
		t.Errorf("got the problem %q", problem)
	}
	b.CheckQuiet()
}

// TestMisspeltKey: the page says that nothing is known of a key, when it is opened and when something is ruled about it.
func TestMisspeltKey(t *testing.T) {
	f := newFake(t)
	f.notSeen, f.history, f.limits = true, nil, sampleLimits()[:1]
	f.limits[0]["units"] = []object{}
	b := browser.Open(t)
	show(t, b, f, 0, "light")
	click(b, "#find")
	b.Do(chromedp.KeyEvent("alcie" + kb.Enter))
	wait(t, b, `document.querySelector("#key .about").innerText.includes("nothing counts for it now") && document.querySelector("#key .about").innerText.includes("check the spelling")`)
	click(b, "#key [data-action=block]")
	browser.Eval[chromedp.Void](b, `document.querySelector("#key [name=why]").value = "abuse"`)
	click(b, "#key .actionform [type=submit]")
	wait(t, b, `/^Blocked.*nothing was seen of it.*check the spelling/.test(document.querySelector("#key .result").innerText)`)
}

// TestLongKey: of a key that is too long to be kept, the page shows the beginning, and offers nothing that would be about another key.
func TestLongKey(t *testing.T) {
	f := newFake(t)
	f.cut = true
	for _, keys := range f.seen["keys"].(object) {
		keys.(object)["refused"].([]object)[0]["cut"] = true
	}
	b := browser.Open(t)
	show(t, b, f, 0, "light")
	click(b, "#refused .keybutton")
	click(b, "#key .ask .primary")
	wait(t, b, `document.querySelector("#key-title").innerText === "acme-batch-export"`)
	if n := browser.Eval[int](b, `document.querySelectorAll("#key [data-action], #key .limit").length`); n != 0 {
		t.Errorf("got %d buttons and limits, want none", n)
	}
	if about := browser.Eval[string](b, `document.querySelector("#key .about").innerText`); !strings.Contains(about, "longer than 1,024 bytes") {
		t.Errorf("got %q, want that the key is too long", about)
	}
	b.CheckQuiet()
}

// TestSlots: an in-flight limit is described by its slots, which may be released or renewed.
func TestSlots(t *testing.T) {
	f := newFake(t)
	f.limits = []object{{"text": "2 in-flight", "name": "", "quota": int64(2), "algorithm": "in-flight", "window_us": 20_000_000, "form": "slots", "holds": []object{}, "retry_after_us": 0,
		"units": []object{{"from": int64(-2_000_000), "to": int64(-2_000_000), "units": int64(2), "frees": int64(18_000_000)}}}}
	b := browser.Open(t)
	show(t, b, f, 0, "light")
	click(b, "#refused .keybutton")
	click(b, "#key .ask .primary")
	wait(t, b, `document.querySelector("#key .limit .next li")`)
	shown := browser.Eval[string](b, `document.querySelector("#key .limit").innerText`)
	if !strings.Contains(shown, "at the latest, unless renewed") || !strings.Contains(shown, "The highest bar is 2 slots.") || strings.Contains(shown, "counts in the window") {
		t.Errorf("got %q, want slots that may be renewed or released", shown)
	}
}

// TestStreamWhoseTokenWasRemoved asks for another token, and says why.
func TestStreamWhoseTokenWasRemoved(t *testing.T) {
	f := newFake(t)
	b := browser.Open(t)
	show(t, b, f, 0, "light")
	f.change(func() { f.revoked = true })
	wait(t, b, `document.querySelector("#signin-problem").innerText === "The token is no longer valid."`)
}
