package jsonapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/slidegate/slidegate/internal/layer/failure"
)

// openapiDocument is the part of the document that the tests use.
type openapiDocument struct {
	OpenAPI string `json:"openapi"`
	Paths   map[string]map[string]struct {
		OperationID string   `json:"operationId"`
		Tags        []string `json:"tags"`
		Parameters  []struct{ Name string }
		Responses   map[string]struct {
			Content map[string]json.RawMessage `json:"content"`
			Headers map[string]json.RawMessage `json:"headers"`
		} `json:"responses"`
	} `json:"paths"`
}

var (
	readDocument = sync.OnceValues(func() (*openapiDocument, error) {
		var doc openapiDocument
		return &doc, json.Unmarshal(document, &doc)
	})
	readSchemas = sync.OnceValues(func() (schemas, error) {
		value, err := decode(string(document))
		return schemas{value}, err
	})
)

// validate validates a text by the schema at a JSON pointer of the document.
func validate(t testing.TB, pointer, text string) error {
	t.Helper()
	s, err := readSchemas()
	must(t, err)
	schema, err := s.at(pointer)
	must(t, err)
	value, err := decode(text)
	if err != nil {
		return err
	}
	return s.check(schema, "", value)
}

// checkedResponses holds the responses that were checked, as "post /v1/allow 200".
var checkedResponses sync.Map

// checkDocumented checks a response against the document: its status, type, headers and body; and that a request with a
// successful response is one that the document describes.
func checkDocumented(t testing.TB, method, path, body string, got reply) {
	t.Helper()
	doc, err := readDocument()
	must(t, err)
	path = strings.Split(path, "?")[0]
	verb := strings.ToLower(method)
	if verb == "head" {
		return // no body
	}
	operations, ok := doc.Paths[path]
	if got.status == 404 && !ok || got.status == 405 || got.status == 404 && operations[verb].OperationID == "" {
		if err := validate(t, "/components/schemas/Problem", got.body); err != nil {
			t.Errorf("%s %s: %d is not a problem as documented: %v", method, path, got.status, err)
		}
		for other := range operations {
			checkedResponses.Store(fmt.Sprintf("%s %s %d", other, path, got.status), true)
		}
		return
	}
	status := strconv.Itoa(got.status)
	response, ok := operations[verb].Responses[status]
	if !ok {
		t.Fatalf("%s %s: %s is not in the document: %s", method, path, status, got.body)
	}
	checkedResponses.Store(fmt.Sprintf("%s %s %s", verb, path, status), true)
	for _, name := range []string{"Ratelimit", "Ratelimit-Policy", "Retry-After"} {
		if got.header.Get(name) != "" && !hasFold(response.Headers, name) {
			t.Errorf("%s %s %s: header %s is not in the document", method, path, status, name)
		}
	}
	pointer := "/paths/" + strings.ReplaceAll(path, "/", "~1") + "/" + verb
	if got.status < 300 && verb == "post" {
		if err := validate(t, pointer+"/requestBody/content/application~1json/schema", body); err != nil {
			t.Errorf("%s %s: the request is not as documented: %v", method, path, err)
		}
	}
	if response.Content == nil {
		if got.body != "" {
			t.Errorf("%s %s: %s has a body, which is not in the document: %s", method, path, status, got.body)
		}
		return
	}
	kind := got.header.Get("Content-Type")
	if _, ok := response.Content[kind]; !ok {
		t.Fatalf("%s %s: %s: the type %q is not in the document", method, path, status, kind)
	}
	if err := validate(t, pointer+"/responses/"+status+"/content/"+strings.ReplaceAll(kind, "/", "~1")+"/schema", got.body); err != nil {
		t.Errorf("%s %s: %s is not as documented: %v\n%s", method, path, status, err, got.body)
	}
}

func hasFold[V any](m map[string]V, name string) bool {
	for key := range m {
		if strings.EqualFold(key, name) {
			return true
		}
	}
	return false
}

// The document has every route, and every route is served where its tag says.
func TestDocumentHasEveryRoute(t *testing.T) {
	doc, err := readDocument()
	must(t, err)
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("openapi: %q", doc.OpenAPI)
	}
	got := map[string]string{}
	for path, operations := range doc.Paths {
		for verb, operation := range operations {
			got[strings.ToUpper(verb)+" "+path] = strings.Join(operation.Tags, ",")
		}
	}
	want := map[string]string{"GET " + documentPath: "client,admin"}
	for path, r := range public {
		want[r.method+" "+path] = "client"
	}
	for path, r := range admin {
		tags := []string{want[r.method+" "+path], "admin"}
		want[r.method+" "+path] = strings.TrimPrefix(strings.Join(tags, ","), ",")
	}
	if !maps.Equal(got, want) {
		t.Errorf("the document has %v\nthe listeners serve %v", got, want)
	}
	for _, path := range []string{"/v1/explain", "/v1/state"} {
		var parameters []string
		for _, p := range doc.Paths[path]["get"].Parameters {
			parameters = append(parameters, p.Name)
		}
		if !slices.Equal(parameters, namesOf(requestFields)) {
			t.Errorf("got the parameters %v of %s", parameters, path)
		}
	}
}

// Every response of the document occurs.
func TestEveryDocumentedResponse(t *testing.T) {
	s := newService(t, Options{})
	reserved := reservationOf(t, s.post("/v1/reserve", `{"key":"r"}`).body)
	held := reservationOf(t, s.post("/v1/acquire", `{"policy":"slots","key":"r"}`).body)
	reqs := map[string]string{
		"/v1/allow": `{"policy":"POLICY","key":"k"}`, "/v1/peek": `{"policy":"POLICY","key":"k"}`,
		"/v1/reserve": `{"policy":"POLICY","key":"k"}`, "/v1/refund": `{"policy":"POLICY","key":"k"}`,
		"/v1/charge": `{"policy":"POLICY","key":"k"}`, "/v1/reset": `{"policy":"POLICY","key":"k"}`,
		"/v1/settle": `{"policy":"POLICY","reservation":` + reserved + `,"cost":2}`, "/v1/cancel": `{"policy":"POLICY","reservation":` + reserved + `}`,
	}
	slots := map[string]string{
		"/v1/acquire": `{"policy":"POLICY","key":"k"}`,
		"/v1/renew":   `{"policy":"POLICY","reservation":` + held + `}`, "/v1/release": `{"policy":"POLICY","reservation":` + held + `}`,
	}
	s.post("/v1/renew", `{"policy":"slots","reservation":`+held+`}`)
	s.post("/v1/release", `{"policy":"slots","reservation":`+held+`}`)
	maps.Copy(reqs, slots)
	for path, body := range reqs {
		policy := "login"
		if slots[path] != "" {
			policy = "slots"
		}
		body = strings.Replace(body, `"k"`, strconv.Quote(path), 1) // a key for each, because they come in any order
		good := strings.Replace(body, "POLICY", policy, 1)
		for range 3 { // until it is refused, if it can be
			s.post(path, good)
		}
		s.post(path, strings.Replace(body, "POLICY", "logn", 1))
		s.post(path, `{"nonsense":1}`)
		s.send("DELETE", path, "", "")
		s.send("POST", path, good, "text/plain")
		s.post(path, strings.Repeat(" ", MaxBody)+good)
		s.fail(fmt.Errorf("jsonapi: %w", errBroken))
		s.post(path, good)
		s.fail(errUnsupported)
		s.post(path, good)
		if strings.Contains(body, `"reservation"`) {
			s.fail(failure.ErrElsewhere)
			s.post(path, good)
		}
		s.fail(nil)
	}
	for _, query := range []string{"?policy=login&key=k", "?policy=logn&key=k", "?nonsense=1"} {
		s.send("GET", "/v1/explain"+query, "", "")
		s.send("GET", "/v1/state"+query, "", "")
	}
	s.send("POST", "/v1/explain", "", "")
	s.send("POST", "/v1/state", "", "")
	const explained = "/v1/explain/request"
	s.post(explained, `{"url":"/x","address":"192.0.2.1"}`)
	s.post(explained, `{"nonsense":1}`)
	s.send("DELETE", explained, "", "")
	for _, err := range []error{errBroken, errUnsupported} {
		s.fail(err)
		s.send("GET", "/v1/explain?key=k", "", "")
		s.send("GET", "/v1/state?key=k", "", "")
		s.post(explained, `{"url":"/x","address":"192.0.2.1"}`)
	}
	s.send("GET", "/v1/openapi.json", "", "")
	s.send("POST", "/v1/openapi.json", "", "")

	doc, err := readDocument()
	must(t, err)
	for path, operations := range doc.Paths {
		for verb, operation := range operations {
			for status := range operation.Responses {
				if _, ok := checkedResponses.Load(verb + " " + path + " " + status); !ok {
					t.Errorf("%s %s: no response had the status %s", verb, path, status)
				}
			}
		}
	}
}
