package generate

// endpoint is the target of generated requests.
type endpoint struct {
	method   string
	path     string
	numbered bool   // a number follows the path
	page     bool   // shown in a browser, so there may be a referer
	status   uint64 // on success
	bytes    uint64 // the average size of the response
}

// endpoints are requested by Zipf's law, the first one most often.
var endpoints = [...]endpoint{
	{"GET", "/api/v1/products", false, false, 200, 5_200},
	{"GET", "/api/v1/products/", true, false, 200, 1_400},
	{"GET", "/", false, true, 200, 14_200},
	{"GET", "/api/v1/session", false, false, 200, 320},
	{"GET", "/api/v1/cart", false, false, 200, 840},
	{"GET", "/products/", true, true, 200, 21_800},
	{"GET", "/api/v1/search?q=lamp", false, false, 200, 3_900},
	{"POST", "/api/v1/events", false, false, 202, 2},
	{"GET", "/api/v1/users/me", false, false, 200, 610},
	{"GET", "/products", false, true, 200, 31_500},
	{"POST", "/api/v1/cart/items", false, false, 201, 410},
	{"GET", "/api/v1/orders", false, false, 200, 2_700},
	{"GET", "/api/v1/products?page=2", false, false, 200, 5_100},
	{"GET", "/api/v1/orders/", true, false, 200, 1_900},
	{"GET", "/static/app.js", false, true, 200, 184_000},
	{"GET", "/static/app.css", false, true, 200, 42_000},
	{"GET", "/api/v1/recommendations", false, false, 200, 2_300},
	{"POST", "/api/v1/login", false, false, 200, 530},
	{"GET", "/search?q=chair", false, true, 200, 18_300},
	{"GET", "/api/v1/categories", false, false, 200, 1_150},
	{"GET", "/api/v1/notifications", false, false, 200, 480},
	{"GET", "/cart", false, true, 200, 9_600},
	{"PATCH", "/api/v1/cart/items/", true, false, 200, 420},
	{"GET", "/api/v1/reviews?product=", true, false, 200, 3_300},
	{"GET", "/favicon.ico", false, true, 200, 4_286},
	{"POST", "/api/v1/orders", false, false, 201, 760},
	{"GET", "/account", false, true, 200, 11_700},
	{"GET", "/api/v1/search?q=desk", false, false, 200, 3_700},
	{"DELETE", "/api/v1/cart/items/", true, false, 204, 0},
	{"GET", "/api/v1/stock/", true, false, 200, 130},
	{"GET", "/account/orders", false, true, 200, 13_900},
	{"PUT", "/api/v1/users/me", false, false, 200, 640},
	{"GET", "/api/v1/prices", false, false, 200, 6_400},
	{"POST", "/api/v1/reviews", false, false, 201, 350},
	{"GET", "/about", false, true, 200, 7_300},
	{"POST", "/api/v1/logout", false, false, 204, 0},
	{"GET", "/help/shipping", false, true, 200, 8_800},
	{"GET", "/api/v1/invoices/", true, false, 200, 22_400},
	{"GET", "/api/v2/products", false, false, 200, 4_700},
	{"GET", "/robots.txt", false, true, 200, 118},
}

// The indexes in endpoints of the requests of a scraper, which reads all products one by one, and of a bot, which
// tries to log in.
const (
	oneProduct = 1
	login      = 17
)

// pickEndpoint picks the endpoint of a request of this kind of key.
func pickEndpoint(k kind, d *dice) *endpoint {
	index := int(endpointByChance[d.roll(uint64(len(endpointByChance)))])
	switch {
	case k == scraper:
		index = oneProduct
	case k == bot && d.roll(2) == 0:
		index = login
	}
	return &endpoints[index]
}

// endpointByChance holds the indexes in endpoints, each in proportion to its probability by Zipf's law.
var endpointByChance = func() (table [1024]uint8) {
	var chance [len(endpoints)]int64
	var sum, reached int64
	for i := range chance {
		chance[i] = 1_000_000 / int64(i+1)
		sum += chance[i]
	}
	index := 0
	for i := range table {
		for int64(i)*sum >= (reached+chance[index])*int64(len(table)) {
			reached += chance[index]
			index++
		}
		table[i] = uint8(index)
	}
	return table
}()

var referers = [...]string{
	"-", "-", "-",
	"https://shop.example/",
	"https://shop.example/products",
	"https://shop.example/cart",
	"https://search.example/?q=lamp+shop",
	"https://news.example/best-desks",
}

var agents = [...]string{
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/143.0.0.0 Safari/537.36",
	"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.1 Safari/605.1.15",
	"Mozilla/5.0 (iPhone; CPU iPhone OS 18_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.1 " +
		"Mobile/15E148 Safari/604.1",
	"Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0",
	"Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/143.0.0.0 Mobile Safari/537.36",
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:145.0) Gecko/20100101 Firefox/145.0",
	"ShopApp/5.4.1 (Android 16)",
	"ShopApp/5.4.1 (iOS 18.7)",
	"okhttp/4.12.0",
	"curl/8.15.0",
}
