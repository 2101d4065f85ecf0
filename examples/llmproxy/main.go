// Command llmproxy is an HTTP handler in front of a language model. The middleware holds the most that a request may cost, its
// max_tokens, until the handler returns, and settles it at the number of tokens that the handler reports.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/memstore"
)

func main() {
	limiter := slidegate.MustNew(memstore.NewDefault(), slidegate.MustParseLimit("1000/1m hold=30s name=tokens"))
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
		body := strings.NewReader(`{"prompt": "What is the answer?", "max_tokens": ` + most + `}`)
		request, err := http.NewRequest("POST", server.URL+"/v1/complete", body)
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

// maxTokens returns the most that a request can cost: the max_tokens of its body, which the handler reads again, or the model's
// default.
func maxTokens(r *http.Request) int64 {
	begin, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(begin), r.Body), r.Body}
	var call struct {
		MaxTokens int64 `json:"max_tokens"`
	}
	if err != nil || json.Unmarshal(begin, &call) != nil || call.MaxTokens < 1 {
		return 500
	}
	return call.MaxTokens
}

// complete stands in for a call to a model that uses 60 tokens.
func complete(w http.ResponseWriter, r *http.Request) {
	if err := httplimit.SetCost(r, 60); err != nil {
		log.Print(err)
	}
	fmt.Fprintln(w, "42")
}
