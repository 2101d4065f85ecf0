package page_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/e2e/browser"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/service/servicetest"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/test/redistest"
)

// TestService uses the page of one of two real instances: what the other one refused is on it, and what is changed on it is in force there
// within two seconds.
func TestService(t *testing.T) {
	text := fmt.Sprintf("store: redis://%s\nstore_timeout: 2s\npolicies: {api: {limits: [3/1h]}}\n", redistest.Server(t).Addr())
	begin := func() *servicetest.Service {
		return servicetest.Start(t, text, func(o *service.Options) {
			o.AdminTokens = []string{"ann:operator:" + strings.ReplaceAll(token, " ", "-")}
		})
	}
	one, other := begin(), begin()
	allow := func() string {
		got := other.Send(t, "http", "POST", "/v1/allow", `{"policy":"api","key":"acme-batch-export"}`)
		var decision struct{ By string }
		_ = json.Unmarshal([]byte(got.Body), &decision)
		return fmt.Sprint(got.Status, " ", decision.By)
	}
	for range 3 {
		allow()
	}
	if got := allow(); got != "429 limits" {
		t.Fatalf("the fourth request: got %s, want 429 limits", got)
	}
	b := browser.Open(t)
	b.Show("http://"+one.Address("admin"), 1280, 800, "light")
	wait(t, b, `document.activeElement.id === "token"`)
	b.Do(chromedp.KeyEvent(strings.ReplaceAll(token, " ", "-") + kb.Enter))
	wait(t, b, `document.querySelector("#headline")?.innerText === "Refusing 25.0\u00a0%"`)
	if shown := browser.Eval[string](b, `document.body.innerText`); !strings.Contains(shown, "2 instances, redis, as of ") || !strings.Contains(shown, "\u2265\u00a01\n") || strings.Contains(shown, "acme-batch-export") {
		t.Errorf("the page shows %s, want two instances, and no whole key", shown)
	}
	click(b, "#refused .keybutton")
	click(b, "#key .ask .primary")
	wait(t, b, `document.querySelector("#key-title").innerText === "acme-batch-export" && document.querySelector("#key .limitstate")?.innerText === "0 of 3 free"`)
	if !one.Log.Has("key shown") || !one.Log.Has("who=ann") || one.Log.Has("acme-batch-export") || other.Log.Has("acme-batch-export") {
		t.Errorf("the log has\n%s\nwant who asked for the key, and not the key", one.Log)
	}
	act := func(action, fill string, want, effect string) {
		t.Helper()
		click(b, "#key [data-action="+action+"]")
		browser.Eval[chromedp.Void](b, fill+`; document.querySelector("#key [name=why]").value = "because of `+action+`"`)
		began := time.Now()
		click(b, "#key .actionform [type=submit]")
		wait(t, b, effect)
		testkit.Eventually(t, fmt.Sprintf("after %s the other instance responds with %s", action, want), func() bool { return allow() == want })
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("the effect of %s was seen after %v, want at most 2s", action, took)
		}
	}
	act("block", `document.querySelector("#key [name=for]").value = ""`, "429 ruling",
		`document.querySelector("#key .ruling").innerText === "Blocked, until it is ended, by ann: because of block"`)
	act("end", `0`, "429 limits", `document.querySelector("#key .ruling").hidden`)
	act("raise", `document.querySelector("#key [name=limits]").value = "6/1h"`, "200 limits", `document.querySelector("#key .limit h3")?.innerText === "6/1h"`)
	wait(t, b, `document.querySelector("#key .limitstate").innerText === "2 of 6 free"`)
	act("reset", `0`, "200 limits", `/^[56] of 6 free$/.test(document.querySelector("#key .limitstate").innerText)`)
	wait(t, b, `[...document.querySelectorAll("#key .history li")].map(line => line.innerText.match(/because of (\w+)/)?.[1]).join(" ") === "reset raise end block"`)
}
