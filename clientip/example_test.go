package clientip_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/slidegate/slidegate/clientip"
)

// A server runs behind a load balancer in 10.0.0.0/8, which appends the address of each request's sender to
// X-Forwarded-For. The client has sent such a header too, to impersonate another client.
func Example() {
	proxies, err := clientip.ParseProxies("10.0.0.0/8", "loopback")
	if err != nil {
		log.Fatal(err)
	}
	source, err := clientip.New(clientip.Options{Header: "X-Forwarded-For", Trusted: proxies})
	if err != nil {
		log.Fatal(err)
	}
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Printf("%s is connected, the client is %s\n", r.RemoteAddr, source.Key(r))
	})

	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "10.0.0.1:51634"
	r.Header.Set("X-Forwarded-For", "6.6.6.6, 203.0.113.7") // 203.0.113.7 claims to be 6.6.6.6
	handler.ServeHTTP(nil, r)

	r.RemoteAddr = "203.0.113.7:33221" // bypassing the load balancer
	handler.ServeHTTP(nil, r)
	// Output:
	// 10.0.0.1:51634 is connected, the client is 203.0.113.7
	// 203.0.113.7:33221 is connected, the client is 203.0.113.7
}

// For gRPC and other protocols, the peer and the header lines are passed as they are.
func ExampleSource_KeyOf() {
	source, err := clientip.New(clientip.Options{Header: "Forwarded", Hops: 1})
	if err != nil {
		log.Fatal(err)
	}
	metadata := map[string][]string{"Forwarded": {"for=6.6.6.6", `for="[2001:db8:1:2::7]:4711";proto=https`}}
	fmt.Println(source.KeyOf("10.0.0.1:51634", metadata[source.Header()]))
	// Output: 2001:db8:1:2::/64
}
