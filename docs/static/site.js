/* A keyboard has to reach what is too wide for the window and scrolls. */
function reachable() {
  for (const element of document.querySelectorAll("pre, .table-wrapper, .formula, .toc-scroll, .sidebar-scroll")) {
    const scrolls = element.scrollWidth > element.clientWidth || element.scrollHeight > element.clientHeight;
    if (scrolls) element.tabIndex = 0;
    else element.removeAttribute("tabindex");
  }
}

addEventListener("load", reachable);
addEventListener("resize", reachable);
