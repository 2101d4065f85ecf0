// Command llmproxy is an HTTP handler in front of a language model. The middleware reserves the most that a request may
// cost, its max_tokens, and settles it at the number of tokens that the handler reports.
package main

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/memstore"
)

func main() {
	limiter := slidegate.MustNew(memstore.NewDefault(), slidegate.Limit{Name: "tokens", Quota: 1000, Window: time.Hour})
	limits, err := httplimit.New(limiter, httplimit.Options{
		Headers: httplimit.HeadersDraft03,
		Policies: []httplimit.Policy{{
			Key:       httplimit.ByAPIKey("X-Api-Key"),
			Cost:      maxTokens,
			CostAfter: httplimit.CostFromHandler(),
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	server := httptest.NewServer(limits.Wrap(http.HandlerFunc(complete)))
	defer server.Close()
	for _, most := range []string{"400", "900", "950", "500"} {
		request, err := http.NewRequest("POST", server.URL+"/v1/complete?max_tokens="+most, nil)
		if err != nil {
			log.Fatal(err)
		}
		request.Header.Set("X-Api-Key", "team-7")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			log.Fatal(err)
		}
		response.Body.Close()
		fmt.Println(most, response.Status, response.Header.Get("RateLimit-Remaining"))
	}
}

// maxTokens returns the most that a request can cost: its max_tokens, or the model's default.
func maxTokens(r *http.Request) int64 {
	most, err := strconv.ParseInt(r.FormValue("max_tokens"), 10, 64)
	if err != nil {
		return 500
	}
	return most
}

// complete stands in for a call to a model that uses 60 tokens.
func complete(w http.ResponseWriter, r *http.Request) {
	if err := httplimit.SetCost(r, 60); err != nil {
		log.Print(err)
	}
	fmt.Fprintln(w, "42")
}
