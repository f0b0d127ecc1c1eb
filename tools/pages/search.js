// SPDX-License-Identifier: GPL-2.0-only
// Looks for words in SECTIONS, which the site's build puts before this: [address, title, text]
// each, and TITLES, by page.
"use strict";

const box = document.getElementById("search");
const found = document.getElementById("found");

function excerpt(text, word) {
    const at = Math.max(0, text.toLowerCase().indexOf(word));
    const start = Math.max(0, at - 60);
    return (start ? "… " : "") + text.slice(start, at + 140) + (at + 140 < text.length ? " …" : "");
}

function look() {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    const hits = words.length
        ? SECTIONS.filter(([, title, text]) =>
              words.every((word) => `${title} ${text}`.toLowerCase().includes(word)))
        : [];
    found.replaceChildren(
        ...hits.slice(0, 30).map(([address, title, text]) => {
            const [item, link, line] = ["li", "a", "p"].map((tag) => document.createElement(tag));
            link.href = address;
            const page = TITLES[address.split("#")[0]];
            link.textContent = title === page ? title : `${page}: ${title}`;
            line.textContent = excerpt(text, words[0]);
            item.append(link, line);
            return item;
        }),
    );
    if (words.length && !hits.length) found.textContent = "Nothing found.";
}

box.addEventListener("input", look);
look(); // a browser may have kept what was typed
