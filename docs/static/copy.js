// A button on every block of code that copies it, without prompts and output of a console.
addEventListener("DOMContentLoaded", () => {
  const wanted = "div.highlight-sh, div.highlight-console, div.highlight-python, div.highlight-default, div.highlight-toml";
  for (const block of document.querySelectorAll(wanted)) {
    const lines = block.querySelector("pre").textContent.trimEnd().split("\n");
    const typed = lines.filter((line) => line.startsWith("$ ")).map((line) => line.slice(2));
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.setAttribute("aria-label", "copy this code");
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText((typed.length ? typed : lines).join("\n") + "\n");
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(block.querySelector("pre"));
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    block.append(button);
  }
});
