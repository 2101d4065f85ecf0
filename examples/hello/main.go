// Command hello is a web server that answers each client address five times per minute.
//
//	curl -i http://127.0.0.1:8090/
package main

import (
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/slidegate/slidegate/httplimit"
)

func main() {
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	log.Fatal(http.ListenAndServe("127.0.0.1:8090", httplimit.LimitByIP(5, time.Minute)(hello)))
}
