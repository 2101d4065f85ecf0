// Makes elements and keeps them current. Text is only ever set as text, so that no key can become markup.

// h returns an element. Properties that begin with "on" are listeners; null and false leave an attribute out.
export function h(tag, attributes = {}, ...children) {
	const [name, ...classes] = tag.split(".");
	const element = document.createElement(name || "div");
	if (classes.length) element.className = classes.join(" ");
	set(element, attributes);
	element.append(...children.flat().filter((child) => child != null && child !== false));
	return element;
}

// svg returns an element of a drawing.
export function svg(tag, attributes = {}, ...children) {
	const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
	set(element, attributes);
	element.append(...children.filter((child) => child != null));
	return element;
}

// set sets attributes, and removes those that are null or false.
export function set(element, attributes) {
	for (const [name, value] of Object.entries(attributes)) {
		if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
		else if (value == null || value === false) element.removeAttribute(name);
		else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value === true ? "" : value);
	}
}

// write sets the text of an element if it differs, so that what an operator has selected stays selected.
export function write(element, text) {
	if (element.textContent !== text) element.textContent = text;
}

// keep makes the children of a parent match a list, by name. Elements stay the same while their names stay, so that the focus does too.
export function keep(parent, items, nameOf, make, update) {
	const known = new Map();
	for (const child of [...parent.children]) {
		if (known.has(child.dataset.name)) child.remove(); // a list that has a name twice
		else if ("name" in child.dataset) known.set(child.dataset.name, child);
	}
	let before = [...parent.children].find((child) => "name" in child.dataset) ?? null;
	for (const item of items) {
		const name = nameOf(item);
		let element = known.get(name);
		if (element) known.delete(name);
		else {
			element = make(item);
			element.dataset.name = name;
		}
		update?.(element, item);
		if (element === before) before = nextNamed(before);
		else move(parent, element, before);
	}
	for (const element of known.values()) element.remove();
}

// move inserts an element. One that has the focus keeps it.
function move(parent, element, before) {
	const focused = element.contains(document.activeElement) ? document.activeElement : null;
	parent.insertBefore(element, before);
	focused?.focus({ preventScroll: true });
}

function nextNamed(element) {
	do element = element.nextElementSibling;
	while (element && !("name" in element.dataset));
	return element;
}

// steady returns the items of a list in the order in which it shows them while an operator points at it or is in it, so that no row moves away
// from a click. New ones come last.
export function steady(box, items) {
	if (!box.matches(":hover") && !box.contains(document.activeElement)) return items;
	const places = new Map([...box.querySelectorAll("tbody > tr")].map((row, i) => [row.dataset.name, i]));
	const place = (item) => places.get(item.policy + "\n" + item.id) ?? places.size;
	return items.map((item, i) => [place(item), i, item]).sort((a, b) => a[0] - b[0] || a[1] - b[1]).map(([, , item]) => item);
}
